"""What a run found: draws, diagnostics, warnings, tables, exports."""
