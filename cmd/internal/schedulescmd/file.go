package schedulescmd

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/internal/strictjson"
	"github.com/prescient-go/prescient/jobs/schedule"
)

// scheduleEntry is one schedule of a file.
type scheduleEntry struct {
	ID           string                `json:"id"            yaml:"id"`
	Crontab      string                `json:"crontab"       yaml:"crontab"`
	Timezone     string                `json:"timezone"      yaml:"timezone"`
	Payload      filePayload           `json:"payload"       yaml:"payload"`
	Deadline     fileDuration          `json:"deadline"      yaml:"deadline"`
	DeadlineFrom schedule.DeadlineFrom `json:"deadline_from" yaml:"deadline_from"`
	Spread       fileDuration          `json:"spread"        yaml:"spread"`
	Misfire      schedule.Misfire      `json:"misfire"       yaml:"misfire"`
	Anchor       fileTime              `json:"anchor"        yaml:"anchor"`
	Start        fileTime              `json:"start"         yaml:"start"`
	End          fileTime              `json:"end"           yaml:"end"`
	MaxRuns      fileCount             `json:"max_runs"      yaml:"max_runs"`
	Exclude      []string              `json:"exclude"       yaml:"exclude"`
	Paused       *bool                 `json:"paused"        yaml:"paused"`
	SQL          string                `json:"sql"           yaml:"sql"`
	Role         string                `json:"role"          yaml:"role"`
	Timeout      fileDuration          `json:"timeout"       yaml:"timeout"`
	Job          string                `json:"job"           yaml:"job"`
	Notify       string                `json:"notify"        yaml:"notify"`
	Text         string                `json:"text"          yaml:"text"`
}

func (e scheduleEntry) spec() schedule.Spec {
	return schedule.Spec{
		ID: e.ID, Crontab: e.Crontab, Timezone: e.Timezone, Payload: json.RawMessage(e.Payload),
		Deadline: time.Duration(e.Deadline), DeadlineFrom: e.DeadlineFrom, Spread: time.Duration(e.Spread),
		Misfire: e.Misfire,
		Anchor:  time.Time(e.Anchor), Start: time.Time(e.Start), End: time.Time(e.End), MaxRuns: int(e.MaxRuns),
		Exclude: e.Exclude,
		Paused:  e.Paused != nil && *e.Paused, KeepPaused: e.Paused == nil,
		Act: schedule.Act{
			SQL: e.SQL, Role: e.Role, Timeout: time.Duration(e.Timeout), Job: e.Job, Notify: e.Notify, Text: e.Text,
		},
	}
}

// fileCount is a number in a file.
type fileCount int

// errEnough ends the reading of a file early.
var errEnough = errors.New("enough")

// readSchedules reads a file in bounded memory. The file is a stream of documents, in YAML or JSON.
// Each document is a schedule or has a list of them. Errors name the line, or in JSON the schedule.
func readSchedules(r io.Reader) iter.Seq2[schedule.Spec, error] {
	return func(yield func(schedule.Spec, error) bool) {
		in, n := bufio.NewReader(r), 0
		err := readEntries(in, func(e scheduleEntry) error {
			if n++; e.ID == "" {
				return fmt.Errorf("schedule %d of the file: id: must not be empty", n)
			}
			if !yield(e.spec(), nil) {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(schedule.Spec{}, err)
		}
	}
}

func readEntries(in *bufio.Reader, each func(scheduleEntry) error) error {
	head, err := in.Peek(in.Size())
	if len(head) == 0 && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the schedules: %w", err)
	}
	switch begin := bytes.TrimSpace(head); {
	case bytes.HasPrefix(begin, []byte("{")) && beginsAsJSON(head):
		return readJSON(in, listOfSchedules.Match(begin), each)
	case bytes.HasPrefix(begin, []byte("[")):
		return errors.New(`it is a list: want {"schedules": [...]}, or one schedule after another`)
	}
	return readYAML(in, each)
}

// beginsAsJSON reports whether the head of a text that begins with { can be that of JSON. YAML has
// objects in braces, too.
func beginsAsJSON(head []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(head))
	for {
		_, err := dec.Token()
		if wrong, ok := errors.AsType[*json.SyntaxError](err); err != nil {
			return !ok || wrong.Offset >= int64(len(head)) // or the rest is not in the head
		}
	}
}

// listOfSchedules matches the beginning of a JSON file that has a list of schedules.
var listOfSchedules = regexp.MustCompile(`^\{\s*("version"\s*:[^,]*,\s*)?"schedules"\s*:`)

// readJSON reads an object with a list of schedules, or one schedule after another.
func readJSON(in io.Reader, list bool, each func(scheduleEntry) error) error {
	var text bytes.Buffer // read, but not decoded
	dec := json.NewDecoder(io.TeeReader(in, &text))
	dec.DisallowUnknownFields()
	if list {
		if err := beginList(dec); err != nil {
			return err
		}
	}
	var begin int64 // of the text
	for n := 1; !list || dec.More(); n++ {
		var e scheduleEntry
		text.Next(int(dec.InputOffset() - begin))
		begin = dec.InputOffset()
		err := dec.Decode(&e)
		if errors.Is(err, io.EOF) && !list {
			return nil
		}
		if err == nil { // a comma before it belongs to the list
			err = strictjson.Verify(bytes.TrimLeft(text.Bytes()[:dec.InputOffset()-begin], ", \t\r\n"), &e)
		}
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			err = fmt.Errorf("%s: want %s, not %s", wrong.Field, jsonKind(wrong.Type), wrong.Value)
		}
		if err != nil {
			if m := unknownJSON.FindStringSubmatch(err.Error()); m != nil {
				err = errors.New(unknownField(m[1], entryFields))
			}
			return fmt.Errorf("schedule %d of the file: %w", n, err)
		}
		if err := each(e); err != nil {
			return err
		}
	}
	if err := expect(dec, json.Delim(']'), json.Delim('}')); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("it goes on after the list of schedules")
	}
	return nil
}

// unknownJSON matches the decoder's error about a field that a schedule does not have.
var unknownJSON = regexp.MustCompile(`^json: unknown field "(.*)"$`)

// entryFields are the fields of a schedule, in the order of the documentation.
var entryFields = func() (names []string) {
	for field := range reflect.TypeFor[scheduleEntry]().Fields() {
		names = append(names, field.Tag.Get("json"))
	}
	return names
}()

// unknownField asks which field was meant, or names those that there are.
func unknownField(typed string, names []string) string {
	return fmt.Sprintf("there is no field %s%s", typed, cmp.Or(spoken.Meant(typed, names),
		": want one of "+strings.Join(names, ", ")))
}

// beginList reads the beginning of an object with a list of schedules, before which a version may stand.
func beginList(dec *json.Decoder) error {
	if err := expect(dec, json.Delim('{')); err != nil {
		return err
	}
	name, err := dec.Token()
	if err == nil && name == "version" {
		var version json.RawMessage
		if err := dec.Decode(&version); err != nil || string(version) != theVersion {
			return errVersion
		}
		_, err = dec.Token() // the list, as listOfSchedules has found
	}
	if err != nil {
		return fmt.Errorf("a text that begins with { must be JSON: %w", err)
	}
	return expect(dec, json.Delim('['))
}

// expect reads tokens of JSON.
func expect(dec *json.Decoder, tokens ...json.Token) error {
	for _, want := range tokens {
		got, err := dec.Token()
		if err != nil {
			return fmt.Errorf("a text that begins with { must be JSON: %w", err)
		}
		if got != want {
			return fmt.Errorf(`found %v, want %v: there is no list "schedules", or more beside it`, got, want)
		}
	}
	return nil
}

// jsonKind returns the JSON name of a Go type.
func jsonKind(t reflect.Type) string {
	if t == reflect.TypeFor[fileTime]() {
		return "a string"
	}
	switch t.Kind() {
	case reflect.Struct:
		return "an object"
	case reflect.Slice:
		return "a list"
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a number"
	}
	return "a string"
}

// fileDuration is a duration in the form of flags, such as 90m or 7d.
type fileDuration duration.Text

// UnmarshalText parses a duration.
func (d *fileDuration) UnmarshalText(text []byte) error {
	return (*duration.Text)(d).UnmarshalText(text)
}

// fileTime is an instant or a date, in the form of flags.
type fileTime time.Time

// UnmarshalText parses an instant.
func (t *fileTime) UnmarshalText(text []byte) error {
	var i cli.Instant
	if err := i.Set(string(text)); err != nil {
		return fmt.Errorf("time %q: %w", text, err)
	}
	*t = fileTime(i.At)
	return nil
}

// filePayload is any JSON value, as JSON or as YAML.
type filePayload json.RawMessage

// UnmarshalJSON keeps the text.
func (p *filePayload) UnmarshalJSON(text []byte) error {
	*p = bytes.Clone(text)
	return nil
}
