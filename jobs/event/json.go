package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"strings"
	"time"

	"github.com/prescient-go/prescient/internal/strictjson"
)

// ContentType is the media type of one Event as JSON.
const ContentType = "application/cloudevents+json"

const (
	specVersion = "1.0"
	dataType    = "application/json"
)

// wire is an event in the JSON format of CloudEvents. publishedat is an attribute of our own,
// partitionkey that of the partitioning extension.
type wire struct {
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`
	Source          string          `json:"source"`
	Type            string          `json:"type"`
	Subject         string          `json:"subject,omitempty"`
	Time            time.Time       `json:"time,omitzero"`
	PublishedAt     time.Time       `json:"publishedat,omitzero"`
	PartitionKey    string          `json:"partitionkey,omitempty"`
	DataContentType string          `json:"datacontenttype,omitempty"`
	Data            json.RawMessage `json:"data,omitempty"`
	DataBase64      json.RawMessage `json:"data_base64,omitempty"`
}

// MarshalJSON returns the event as CloudEvents 1.0 in JSON (structured mode), on one line: the
// attributes id, source, type, subject, time and publishedat (RFC 3339, UTC), partitionkey, which
// is the subject, datacontenttype and data. An attribute that is not set is left out. The error is
// that of Validate.
func (e Event) MarshalJSON() ([]byte, error) {
	if err := e.Validate(); err != nil {
		return nil, err
	}
	w := wire{
		SpecVersion: specVersion, ID: e.ID, Source: e.Source, Type: e.Type, Subject: e.Subject,
		Time: e.Time.UTC(), PublishedAt: e.PublishedAt.UTC(), PartitionKey: e.Subject, Data: e.Data,
	}
	if e.Data != nil {
		w.DataContentType = dataType
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false) // a < stays readable
	err := enc.Encode(w)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

// UnmarshalJSON reads what MarshalJSON writes, and any other CloudEvent of version 1.0 whose data
// is JSON or absent. Attributes that Event has no field for are dropped. It does not Validate.
func (e *Event) UnmarshalJSON(text []byte) error {
	var w wire
	if err := strictjson.UnmarshalSome(text, &w); err != nil {
		return fmt.Errorf("read a CloudEvent: %w", err)
	}
	switch {
	case w.SpecVersion != specVersion:
		return fmt.Errorf("read a CloudEvent: specversion: must be %q, is %q", specVersion, w.SpecVersion)
	case w.DataBase64 != nil && string(w.DataBase64) != "null":
		return errors.New("read a CloudEvent: data_base64: only JSON, in data, can be read")
	case w.Data != nil && !isJSON(w.DataContentType):
		return fmt.Errorf("read a CloudEvent: datacontenttype: only JSON can be read, is %q", w.DataContentType)
	}
	*e = Event{
		ID: w.ID, Source: w.Source, Type: w.Type, Subject: w.Subject,
		Time: w.Time.UTC(), PublishedAt: w.PublishedAt.UTC(), Data: w.Data,
	}
	return nil
}

// isJSON tells whether a media type is that of JSON, as CloudEvents has it: absent, */json or
// */*+json.
func isJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (strings.HasSuffix(media, "/json") || strings.HasSuffix(media, "+json"))
}
