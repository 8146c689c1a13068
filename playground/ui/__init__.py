"""The page: gradio lives here and in app.py, nowhere else."""
