"""What `noxfile.py` is made of: environments, the machine it runs on, CUDA stand-ins, results."""
