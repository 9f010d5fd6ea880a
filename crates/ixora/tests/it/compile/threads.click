// Two threads, of which each reaches a part of the program.
f0 :: Feed(0, 32) -> a :: Strip(4) -> [0]m :: Counter -> p :: Paint(4) -> t :: PaintTee(4) -> Unstrip(2) -> Keep(0); t[1] -> Keep(1);
f1 :: Feed(1, 32) -> b :: CheckLength(60) -> n :: Null -> m; b[1] -> Keep(2);
StaticThreadSched(f0 0, f1 1);
