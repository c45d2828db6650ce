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

// wire is an event in the JSON format of CloudEvents, as it is read. publishedat is an attribute of our own,
// partitionkey that of the partitioning extension.
type wire struct {
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`
	Source          string          `json:"source"`
	Type            string          `json:"type"`
	Subject         string          `json:"subject"`
	Time            time.Time       `json:"time"`
	PublishedAt     time.Time       `json:"publishedat"`
	PartitionKey    string          `json:"partitionkey"`
	DataContentType string          `json:"datacontenttype"`
	Data            json.RawMessage `json:"data"`
	DataBase64      json.RawMessage `json:"data_base64"`
}

// MarshalJSON returns the event as CloudEvents 1.0 in JSON (structured mode), on one line: the
// attributes id, source, type, subject, time and publishedat (RFC 3339, UTC), partitionkey, which
// is the subject, datacontenttype and data. An attribute that is not set is left out. The error is
// that of Validate.
//
// It writes the text by itself, because package encoding/json would check and copy the data twice more. That was most
// of the work of sending an event.
func (e Event) MarshalJSON() ([]byte, error) {
	if err := e.Validate(); err != nil {
		return nil, err
	}
	line := make([]byte, 0, 300+len(e.ID)+len(e.Source)+len(e.Type)+2*len(e.Subject)+len(e.Data))
	line = append(line, `{"specversion":"`+specVersion+`"`...)
	line = appendText(line, `,"id":`, e.ID)
	line = appendText(line, `,"source":`, e.Source)
	line = appendText(line, `,"type":`, e.Type)
	line = appendText(line, `,"subject":`, e.Subject)
	line = appendTime(line, `,"time":`, e.Time)
	line = appendTime(line, `,"publishedat":`, e.PublishedAt)
	line = appendText(line, `,"partitionkey":`, e.Subject)
	if e.Data == nil {
		return append(line, '}'), nil
	}
	out := bytes.NewBuffer(append(line, `,"datacontenttype":"`+dataType+`","data":`...))
	err := json.Compact(out, e.Data)
	return append(out.Bytes(), '}'), err
}

// appendText appends an attribute, unless it is empty. Validate has found no control character in it, and a < stays
// readable.
func appendText(line []byte, name, value string) []byte {
	if value == "" {
		return line
	}
	line = append(append(line, name...), '"')
	for i := range len(value) {
		if value[i] == '"' || value[i] == '\\' {
			line = append(line, '\\')
		}
		line = append(line, value[i])
	}
	return append(line, '"')
}

// appendTime appends an instant, unless it is the zero time.
func appendTime(line []byte, name string, at time.Time) []byte {
	if at.IsZero() {
		return line
	}
	line = append(append(line, name...), '"')
	return append(at.UTC().AppendFormat(line, time.RFC3339Nano), '"')
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
