"""Reports: self-contained HTML pages for a run, several runs side by side, a sweep, or a paper."""
