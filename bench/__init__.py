"""Side-by-side measurements. Ratios of one run are what counts; the machine decides the rest."""
