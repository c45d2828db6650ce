package cmd

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/jobs/schedule"
)

// schedulesFile is a file for schedules apply, as YAML or JSON.
type schedulesFile struct {
	Schedules *[]scheduleEntry `json:"schedules" yaml:"schedules"`
}

// scheduleEntry is one schedule of a file.
type scheduleEntry struct {
	ID       string           `json:"id"       yaml:"id"`
	Crontab  string           `json:"crontab"  yaml:"crontab"`
	Timezone string           `json:"timezone" yaml:"timezone"`
	Payload  filePayload      `json:"payload"  yaml:"payload"`
	Deadline fileDuration     `json:"deadline" yaml:"deadline"`
	Spread   fileDuration     `json:"spread"   yaml:"spread"`
	Misfire  schedule.Misfire `json:"misfire"  yaml:"misfire"`
	Anchor   time.Time        `json:"anchor"   yaml:"anchor"`
	Paused   bool             `json:"paused"   yaml:"paused"`
}

// parseSchedules reads a file. Its errors name the line, or in JSON the schedule.
func parseSchedules(text []byte) ([]schedule.Spec, error) {
	var file schedulesFile
	decode := decodeYAML
	if json.Valid(text) {
		decode = decodeJSON
	}
	if err := decode(text, &file); err != nil {
		return nil, err
	}
	if file.Schedules == nil {
		return nil, errors.New(`there is no list "schedules"; to delete every schedule, write: schedules: []`)
	}
	specs := make([]schedule.Spec, len(*file.Schedules))
	for i, e := range *file.Schedules {
		if e.ID == "" {
			return nil, fmt.Errorf("schedule %d of the list: id: must not be empty", i+1)
		}
		specs[i] = schedule.Spec{
			ID: e.ID, Crontab: e.Crontab, Timezone: e.Timezone, Payload: json.RawMessage(e.Payload),
			Deadline: time.Duration(e.Deadline), Spread: time.Duration(e.Spread), Misfire: e.Misfire, Anchor: e.Anchor, Paused: e.Paused,
		}
	}
	return specs, nil
}

func decodeJSON(text []byte, file *schedulesFile) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	err := dec.Decode(file)
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		line := 1 + bytes.Count(text[:min(int(e.Offset), len(text))], []byte("\n"))
		return fmt.Errorf("line %d: %s: want %s, not %s", line, cmp.Or(e.Field, "the file"), jsonKind(e.Type), e.Value)
	}
	return err
}

// jsonKind is what a Go type is called in JSON.
func jsonKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct:
		return "an object"
	case reflect.Slice:
		return "a list"
	case reflect.Bool:
		return "true or false"
	}
	return "a string"
}

// goTypes are in the errors of the decoder, and mean nothing to who wrote the file.
var goTypes = regexp.MustCompile(` (in type|into) [\w.*\[\]]+`)

func decodeYAML(text []byte, file *schedulesFile) error {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	err := dec.Decode(file)
	if errors.Is(err, io.EOF) {
		return errors.New("it is empty")
	}
	if err == nil && !errors.Is(dec.Decode(new(yaml.Node)), io.EOF) {
		return errors.New("it has more than one document, separated by ---")
	}
	if e, ok := errors.AsType[*yaml.TypeError](err); ok {
		return errors.New(goTypes.ReplaceAllString(strings.Join(e.Errors, "; "), ""))
	}
	return err
}

// fileDuration is a duration as flags take it, such as 90m or 7d.
type fileDuration duration.Text

// UnmarshalText parses a duration.
func (d *fileDuration) UnmarshalText(text []byte) error {
	return (*duration.Text)(d).UnmarshalText(text)
}

// UnmarshalYAML is UnmarshalText, and names the line.
func (d *fileDuration) UnmarshalYAML(node *yaml.Node) error {
	if err := d.UnmarshalText([]byte(node.Value)); err != nil {
		return fmt.Errorf("line %d: %w", node.Line, err)
	}
	return nil
}

// filePayload is any JSON value, as JSON or as YAML.
type filePayload json.RawMessage

// UnmarshalJSON keeps the text.
func (p *filePayload) UnmarshalJSON(text []byte) error {
	*p = bytes.Clone(text)
	return nil
}

// UnmarshalYAML turns YAML into JSON, and refuses what JSON cannot say.
func (p *filePayload) UnmarshalYAML(node *yaml.Node) error {
	if line := timestampIn(node, 0); line > 0 {
		return fmt.Errorf("line %d: JSON has no timestamps: write it in quotes", line)
	}
	var v any
	if err := node.Decode(&v); err != nil {
		return err
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("line %d: payload: it cannot be written as JSON: keys must be text, and numbers finite", node.Line)
	}
	*p = text
	return nil
}

// timestampIn returns the line of the first timestamp in a payload, or 0.
func timestampIn(node *yaml.Node, depth int) int {
	const deepest = 1000
	if node.Kind == yaml.ScalarNode && node.ShortTag() == "!!timestamp" {
		return node.Line
	}
	for _, sub := range node.Content {
		if line := timestampIn(sub, depth+1); line > 0 || depth > deepest {
			return line
		}
	}
	return 0
}
