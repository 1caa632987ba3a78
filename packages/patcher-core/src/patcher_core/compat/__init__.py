"""Old import paths as aliases of this project; importing one of these modules puts its path into effect."""
