"""One adaptor per framework; each offers ``build(case, threads) -> Program``."""
