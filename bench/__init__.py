"""Side-by-side measurements. Compare the ratios within one run: absolute numbers depend on the machine."""
