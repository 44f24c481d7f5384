"""Makes drafters: models, data, training, evaluation, export, registry."""
