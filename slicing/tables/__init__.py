"""Tables that are there as a whole: answered piece by piece or by periods, or replayed as a stream."""
