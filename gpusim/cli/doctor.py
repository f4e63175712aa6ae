"""``gpusim doctor``."""

from __future__ import annotations

import typer

from gpusim.cli.arguments import add_command


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    add_command(app, "doctor", doctor, "gpusim doctor")


def doctor() -> None:
    """What is on this machine, what is missing, and how to get it.

    Exit code 1 when something that simulating needs is missing.
    """
    from rich.text import Text

    from gpusim.cli.console import show
    from gpusim.doctor import examine
    from gpusim.report.text import plain_table

    findings = examine()
    table = plain_table("What gpusim found on this machine", "", "what", "found", "needed for")
    styles = {"ok": ("ok", "green"), "missing": ("missing", "bold red"), "optional": ("absent", "yellow")}
    for finding in findings:
        word, style = styles[finding.state]
        table.add_row(Text(word, style=style), finding.what, Text(finding.found), Text(finding.needed_for))
    show(table, "")
    hints = [finding for finding in findings if finding.hint and finding.state != "ok"]
    for finding in hints:
        show(f"{finding.what}: {finding.hint}")
    if any(finding.state == "missing" for finding in findings):
        raise typer.Exit(1)
    show("Everything that simulating needs is here.")
