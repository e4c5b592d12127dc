"""The papers' experiments, with peers side by side: `penstock bench` on the command line."""
