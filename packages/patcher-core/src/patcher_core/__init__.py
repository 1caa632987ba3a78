"""The engine. It knows no library; patch sets bring everything specific."""
