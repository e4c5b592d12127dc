"""Temporal streams: events with a lifetime that may be revised (lmerge.md III)."""
