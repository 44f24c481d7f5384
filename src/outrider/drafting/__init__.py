"""Makes drafters: block-diffusion draft models (DFlash, DFlash 2) that speculate for a target."""
