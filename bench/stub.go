package main
import "context"
func peers(ctx context.Context, b *bench) error { return nil }
func realistic(ctx context.Context, b *bench) error { return nil }
func heldBack(ctx context.Context, b *bench) error { return nil }
func scale(ctx context.Context, b *bench) error { return nil }
func enqueue(ctx context.Context, b *bench) error { return nil }
var _ = finishBatch
var _ = finish
var _ = registerBatchTx
var _ = payloadOf
var _ = atMost
