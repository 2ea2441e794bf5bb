"""Programs that train with Pando: `python -m pando_demo.images` and `python -m pando_demo.gpt`."""
