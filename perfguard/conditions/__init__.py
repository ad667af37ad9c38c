"""What the recorded conditions of trials mean: gates, findings by arm, coverage. Pure: asks no machine."""
