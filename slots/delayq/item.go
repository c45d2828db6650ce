package delayq

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/grid"
)

// Item is the argument of a handler.
type Item struct {
	// ID is the same every time the item is handled, so that a handler can recognise a repeat.
	ID string
	// At is the instant given to DelayContext, in UTC and whole microseconds; not the slot, and
	// never "now".
	At time.Time
	// Data is the data given to Delay, byte for byte. Never nil.
	Data []byte
}

// envelope is an Item as the payload of its row. The data is in base64, because JSON has no bytes.
type envelope struct {
	At   time.Time `json:"at"`
	Data []byte    `json:"data"`
}

// envelopeSize is the most that an envelope adds to its data in base64.
const envelopeSize = 128

var maxPayload = base64.StdEncoding.EncodedLen(MaxData) + envelopeSize

// DelayContext puts data into the queue, to be handled at the first slot at or after readyAt, which
// may be in the past. The item is part of tx; jobs.OwnTx gives it a transaction of its own. readyAt is at most
// 5 years ahead, data at most MaxData. Keep larger data, and data that many items share, elsewhere and refer to it.
func (q *Queue) DelayContext(ctx context.Context, tx jobs.Tx, readyAt time.Time, data []byte) error {
	item, err := pack(rand.Text(), readyAt, data)
	if err != nil {
		return fmt.Errorf("delay item: %w", err)
	}
	item.CheckAt = readyAt
	if _, err := q.client.Enqueue(ctx, tx, item); err != nil {
		return fmt.Errorf("delay item: %w", err)
	}
	return nil
}

func pack(id string, readyAt time.Time, data []byte) (jobs.Request, error) {
	item := jobs.Request{JobExec: job, EntityName: entity, EntityKey: id, Anonymous: true}
	switch {
	case readyAt.IsZero():
		return item, errors.New("the instant is not set")
	case len(data) > MaxData:
		return item, fmt.Errorf("the data is %d bytes, and %d are the most: keep it elsewhere and let the item name it",
			len(data), MaxData)
	}
	return item, item.SetPayload(envelope{At: grid.RoundMicro(readyAt), Data: append([]byte{}, data...)})
}

func unpack(row jobs.FutureJob) (Item, error) {
	e, err := jobs.Payload[envelope](row)
	if err != nil {
		return Item{}, fmt.Errorf("not an item of Delay: %w", err)
	}
	if e.At.IsZero() || e.Data == nil {
		return Item{}, fmt.Errorf("not an item of Delay: its payload must have at and data, but is %.100s", row.Payload)
	}
	return Item{ID: row.EntityKey, At: e.At.UTC(), Data: e.Data}, nil
}
