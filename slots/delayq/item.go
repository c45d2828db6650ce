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

// Item is what a handler gets.
type Item struct {
	// ID is the same every time the item is handled, so that a repeat can be told.
	ID string
	// At is the instant given to DelayContext, in UTC and whole microseconds; not the slot, and never "now".
	At time.Time
	// Data is what was given to Delay, byte for byte; never nil.
	Data []byte
}

// envelope is an Item as the payload of its row. JSON has no bytes, so the data is in base64.
type envelope struct {
	At   time.Time `json:"at"`
	Data []byte    `json:"data"`
}

// envelopeSize is the most that an envelope adds to its data in base64.
const envelopeSize = 128

var maxPayload = base64.StdEncoding.EncodedLen(MaxData) + envelopeSize

// DelayContext puts data into the queue, to be handled at the first slot at or after an instant, of the past too; in a
// transaction it is part of that, given a pool it has one of its own. readyAt is at most 5 years ahead, data at most
// MaxData. Data that many items have in common, or that is larger, is better kept elsewhere and named by the item.
func (q *Queue) DelayContext(ctx context.Context, db jobs.DB, readyAt time.Time, data []byte) error {
	item, err := pack(rand.Text(), readyAt, data)
	if err != nil {
		return fmt.Errorf("delay item: %w", err)
	}
	item.CheckAt = readyAt
	if _, err := q.client.Enqueue(ctx, db, item); err != nil {
		return fmt.Errorf("delay item: %w", err)
	}
	return nil
}

func pack(id string, readyAt time.Time, data []byte) (jobs.FutureJob, error) {
	item := jobs.FutureJob{JobExec: job, EntityName: entity, EntityKey: id, Anonymous: true}
	switch {
	case readyAt.IsZero():
		return item, errors.New("the instant is not set")
	case len(data) > MaxData:
		return item, fmt.Errorf("the data is %d bytes, and %d are the most: keep it elsewhere and let the item name it", len(data), MaxData)
	}
	return item, item.SetPayload(envelope{At: grid.Micro(readyAt), Data: append([]byte{}, data...)})
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
