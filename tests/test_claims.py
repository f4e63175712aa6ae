"""docs/claims.md: made from the records; verdicts from measured numbers, predictions from the simulator."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gpusim.errors import InputError
from gpusim.validation.claims.__main__ import main
from gpusim.validation.claims.access import access_wavefronts, loaded_elements
from gpusim.validation.claims.book import CUBLAS, LADDER, PREDICTED, Book, load_predictions, predict
from gpusim.validation.claims.claim import Claim, Part, near, sectors, wavefronts
from gpusim.validation.claims.page import gains, judge, page, sectors_of_stride
from gpusim.validation.claims.stated import roofline_ms, stated
from gpusim.validation.claims.tuning import pipe_use, shared_stalls

#: Launches that are simulated in well under a second.
QUICK = ("A2:large", "A3-16:large", "B3-nopad:middle", "C2:middle", "D2:square256", "D3-pad1:square256",
         "E3:medium", "E3:ragged", "E4-tile8:medium", "E4-tile16:ragged", "E5:medium")  # fmt: skip


@pytest.fixture(scope="module")
def book(h200: Path) -> Book:
    return Book(h200)


@pytest.fixture(scope="module")
def claims(book: Book) -> dict[int, Claim]:
    return {claim.number: claim for claim in judge(book)}


def test_the_page_is_what_the_records_give(book: Book, root: Path) -> None:
    fresh = (root / "docs" / "claims.md").read_text(encoding="utf-8")
    assert page(book) == fresh, "run: python -m gpusim.validation.claims --figures docs/img > docs/claims.md"


def test_links_and_pictures_exist(root: Path) -> None:
    text = (root / "docs" / "claims.md").read_text(encoding="utf-8")
    targets = set(re.findall(r"\]\(([^)#][^)]*)\)", text))
    assert len(targets) > 30
    assert not [t for t in targets if not (root / "docs" / t).is_file()]


def test_quick_predictions_are_what_the_simulator_says_now(book: Book, h200: Path) -> None:
    kept = load_predictions(h200)
    assert predict(book, QUICK) == {id: kept[id] for id in QUICK}


def test_every_kept_prediction_is_of_the_measured_binary(book: Book, h200: Path) -> None:
    kept = load_predictions(h200)
    assert set(kept) == set(PREDICTED)
    for id in PREDICTED:
        assert kept[id]["cubin_sha256"] == book.record(id)["kernel"]["cubin_sha256"], id


def test_predictions_equal_the_profiler_but_for_asynchronous_copies(book: Book) -> None:
    differing = {
        (id, name)
        for id in PREDICTED
        for name, value in book.predicted(id).metrics.items()
        if value != book.measured(id)[name]
    }
    assert differing == {("A9-async:large", "sectors")}
    assert all(book.predicted(id).accesses == book.measured(id).accesses for id in PREDICTED)


def test_verdicts(claims: dict[int, Claim]) -> None:
    assert {n: c.verdict for n, c in claims.items()} == {
        1: "partly", 2: "partly", 3: "false", 4: "false", 5: "false", 6: "false", 7: "partly", 8: "partly",
    }  # fmt: skip


def test_a_verdict_follows_from_the_parts() -> None:
    def verdict(*held: bool) -> str:
        return Claim(0, "", tuple(Part("", "", h) for h in held), (), "").verdict

    assert verdict(True, True) == "true"
    assert verdict(True, False) == "partly"
    assert verdict(False, False) == "false"


def test_claim_1_the_gain_and_its_cause(book: Book, claims: dict[int, Claim]) -> None:
    assert book.us("A1:large") == 275896.378 and book.us("A2:large") == 22857.743
    assert book.tflops("A1:large") == pytest.approx(0.498, abs=5e-4)
    assert book.us("A1:large") / book.us("A2:large") == pytest.approx(12.07, abs=5e-3)
    assert book.useful("read", 1) / book.useful("read", 256) == pytest.approx(15.34, abs=5e-3)
    # a load of A has 32 lines and one of B has 1, 4096^3 / 32 of each; C is read and written, 32 lines each
    assert book.predicted("A1:large")["tags"] == 4096**3 // 32 * 33 + 2 * 4096**2 // 32 * 32
    assert book.per_cycle("A1:large", book.value("A1:large", "tags")) == pytest.approx(0.990, abs=5e-4)
    assert book.value("A1:large", "l1_hits") / book.value("A1:large", "sectors") > 0.99
    assert [p.holds for p in claims[1].parts] == [True, False, False]


def test_claims_2_and_3_the_column_read(book: Book, claims: dict[int, Claim]) -> None:
    assert wavefronts("As[ty][k]", (32, 32), "float As[32][32]") == 1
    assert wavefronts("As[tx][k]", (32, 32), "float As[32][32]") == 32
    assert wavefronts("As[ty][k]", (16, 16), "float As[16][16]") == 1  # two words, 16 banks apart
    assert wavefronts("As[tx][k]", (16, 16), "float As[16][16]") == 8  # 16 rows in two banks
    assert book.pattern("shared_ld32_stride32")["wavefronts"] == 32
    assert book.measured("B2-32:middle").conflicts == 0 == book.measured("B2-16:middle").conflicts
    # 512^3: 512 * 512 / 32 warps read 512 / 4 quads of As each
    assert book.measured("B2-32-ty:middle").accesses["LDS.128 32/4"] == 512 * 512 // 32 * 512 // 4
    assert [p.holds for p in claims[2].parts] == [False, True]
    shown = access_wavefronts("As[tx][k]", 32, "-")
    assert shown.predicted == "32" and "--shared 'float As[32][32]'" in shown.what


def test_claim_4_padding(book: Book) -> None:
    wavefronts_of = {id: book.measured(id)["wavefronts"] for id in PREDICTED}
    assert wavefronts_of["B3:middle"] == 2326528 and wavefronts_of["B3-nopad:middle"] == 1703936
    assert wavefronts_of["D3-pad1:square256"] == 184320 and wavefronts_of["D2:square256"] == 139264
    assert wavefronts_of["D3-pad16:square256"] == 110592
    assert wavefronts_of["E5:medium"] == 147456 and wavefronts_of["E4-tile16:medium"] == 106496
    assert wavefronts("As[ty][tx]", (16, 16), "float As[16][17]", "store") == 2
    assert book.us("B3:middle") > book.us("B3-nopad:middle")
    assert book.us("D3-pad1:square256") > book.us("D2:square256")


def test_claim_5_occupancy(book: Book, claims: dict[int, Claim]) -> None:
    assert book.value("C2:middle", "limit_warps") == 2 and book.value("C2:middle", "occupancy") == 100
    assert [p.condition for p in claims[5].parts][:2] == [
        "2 (shared memory alone would allow 12)", "96 KB / 8 KB = 12"]  # fmt: skip
    assert "50 % or 100 % with any number" in claims[5].parts[2].condition


def test_claim_6_the_broadcast_of_a(book: Book) -> None:
    assert sectors("A[ty * 4096 + k]", (32, 32)) == 1 and sectors("A[tx * 4096 + k]", (32, 32)) == 32
    assert book.measured("A2:large").accesses["LDG.E 1"] == 4096**3 // 32
    assert book.measured("A1:large").accesses["LDG.E 32"] == 4096**3 // 32 + 4096**2 // 32


def test_claim_7_the_bottleneck(book: Book) -> None:
    def ratio(id: str) -> float:
        return book.predicted(id)["wavefronts"] / book.predicted(id).ffma

    assert ratio("A3-32:large") == pytest.approx(1.562, abs=1e-3)
    assert ratio("A5:large") == pytest.approx(0.328, abs=1e-3)
    assert ratio("A7:large") < 0.25 < ratio("A6:large")
    assert shared_stalls(book, "A3-32:large") == pytest.approx(18.96 + 0.94)
    assert pipe_use(book, "A3-32:large") == pytest.approx((0.827, 0.145), abs=1e-3)
    assert pipe_use(book, CUBLAS)[1] == pytest.approx(0.791, abs=1e-3)


def test_claim_8_elements_and_sectors(book: Book) -> None:
    assert loaded_elements(book, "E3:medium") == 2 * 128**3
    assert loaded_elements(book, "E4-tile8:medium") * 8 == 2 * 128**3
    # 37x50x29, T = 16: A is read by 4 columns of blocks, B by 3 rows of blocks
    assert loaded_elements(book, "E3:ragged") == 2 * 37 * 50 * 29
    assert loaded_elements(book, "E4-tile16:ragged") == 37 * 29 * 4 + 29 * 50 * 3
    assert book.measured("E3:medium")["sectors"] / book.measured("E4-tile32:medium")["sectors"] == 16
    assert book.value("E4-tile8:medium", "l2_sectors") > book.value("E3:medium", "l2_sectors")


def test_stated_figures(book: Book) -> None:
    found = {s.stated: s for s in stated(book)}
    assert found["137 GFLOP"].found == "137.4" and found["512 FLOP/B"].holds
    # 268.4 MB at 3.35 TB/s; 137.4 GFLOP at 132 SMs x 128 lanes x 2 x 1.98 GHz
    assert roofline_ms() == pytest.approx((0.0801, 2.054), abs=1e-3)
    assert not found["0.07 ms for the bytes"].holds and not found["2.3 ms for the arithmetic"].holds
    assert near(90, 100) and not near(89, 100)


def test_the_ladder(book: Book) -> None:
    measured = {id: round(book.tflops(id), 1) for id in (*LADDER, CUBLAS)}
    assert measured["A4:large"] == 16.4 and measured["A5:large"] == 33.0
    assert measured["A9-double:large"] == 44.5 and measured[CUBLAS] == 51.2
    gain = gains(book)
    assert gain["A1:large"] is None
    assert gain["A2-1d:large"] == pytest.approx(12.06, abs=5e-3)
    assert gain["A4:large"] == pytest.approx(15621.62 / 8372.32, abs=1e-3)  # over A3-32, the fastest A3
    assert book.measured("A6:large").conflicts == 285212672 == book.predicted("A6:large").conflicts


def test_the_stride_experiment(book: Book) -> None:
    assert [sectors_of_stride(s) for s in (1, 2, 4, 8, 256)] == [4, 8, 16, 32, 32]
    assert book.useful("read", 1) == pytest.approx(2419.03, abs=5e-3)
    assert book.useful("copy", 256) == pytest.approx(93.96, abs=5e-3)
    with pytest.raises(InputError, match="no read at 3"):
        book.useful("read", 3)


def test_what_is_missing_is_said(book: Book, h200: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no record of A1:huge"):
        book.us("A1:huge")
    with pytest.raises(InputError, match="has no no__such"):
        book.value("A1:large", "no__such.sum")
    with pytest.raises(InputError, match="prediction of the binary"):
        Book(h200, predictions={}).predicted("A1:large")
    with pytest.raises(InputError, match="cannot be read"):
        load_predictions(tmp_path)
    (tmp_path / "claims.json").write_text(json.dumps({"schema": "other"}), encoding="utf-8")
    with pytest.raises(InputError, match=r"is not gpusim\.claims/1"):
        load_predictions(tmp_path)


def test_the_command(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--figures", str(tmp_path)]) == 0
    assert capsys.readouterr().out == (root / "docs" / "claims.md").read_text(encoding="utf-8")
    for name in ("claims-ladder.png", "claims-stride.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    assert main(["--figures", str(tmp_path / "missing" / "folder")]) == 2
    assert "missing" in capsys.readouterr().err
