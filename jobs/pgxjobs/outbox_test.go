package pgxjobs_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/event/outbox"
)

func TestAnEventIsPublishedInATransactionOfAnyLibrary(t *testing.T) {
	t.Parallel()
	for name := range setup(t).all() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			box, ctx := outbox.New(w.db, "prescient"), t.Context()
			if _, err := box.Ack(ctx, "reader", outbox.Position{}); err != nil {
				t.Fatal(err)
			}
			tx, end := w.all()[name]()
			err := box.PublishTx(ctx, tx, []event.Event{
				{ID: "1", Type: "com.example.shipped", Subject: "42", Data: json.RawMessage(`{"text": "\"ü\""}`)},
			})
			if err = errors.Join(err, box.ForgetTx(ctx, tx, "reader"), end()); err != nil {
				t.Fatal(err)
			}
			var list []outbox.Stored
			await.True(t, "transactions of other tests to end, before which nothing can be read", func() bool {
				list, err = box.Newest(ctx, 10)
				return err != nil || len(list) > 0
			})
			if err != nil || len(list) != 1 || list[0].ID != "1" || list[0].Subject != "42" {
				t.Errorf("%+v, %v", list, err)
			}
			if _, err := box.Consumer(ctx, "reader"); !errors.Is(err, outbox.ErrNoConsumer) {
				t.Error(err)
			}
			tx, end = w.all()[name]()
			if err := box.ForgetTx(ctx, tx, "reader"); !errors.Is(err, outbox.ErrNoConsumer) {
				t.Error(err)
			}
			_ = end()
		})
	}
}
