"""Reports: a :class:`gpusim.simulate.SimResult` as JSON (:mod:`.json`) or as tables (:mod:`.text`)."""
