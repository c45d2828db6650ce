package web

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/prescient-go/prescient/internal/strictjson"
)

// CheckMedia refuses a body that is neither JSON nor of one of the other media types.
func CheckMedia(r *http.Request, others ...string) error {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" && !slices.Contains(others, media) {
		return NewProblem(http.StatusUnsupportedMediaType,
			"send the body as JSON, with the header Content-Type: application/json")
	}
	return nil
}

// Decode reads the one JSON value of a request. Its media type is application/json or one of
// others.
func Decode(r *http.Request, v any, others ...string) error {
	if err := CheckMedia(r, others...); err != nil {
		return err
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return Unreadable(err)
	}
	return Parse(text, v)
}

// Parse reads one JSON value. Each field must be known and occur once. It refuses invalid UTF-8,
// which the decoder would replace.
func Parse(text []byte, v any) error {
	if !utf8.Valid(text) {
		return Unreadable(errors.New("must be valid UTF-8"))
	}
	if err := strictjson.Unmarshal(text, v); err != nil {
		return Unreadable(err)
	}
	return nil
}

// Unreadable returns the problem of a body that cannot be read.
func Unreadable(err error) error {
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return NewProblem(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body must be at most %d bytes", tooLarge.Limit))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return NewProblem(http.StatusRequestTimeout, "the body did not come in time")
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		err = fmt.Errorf("%s: it must not be of the JSON type %s", cmp.Or(e.Field, "the whole"), e.Value)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("it ends too early: want a whole JSON value")
	}
	if e, ok := errors.AsType[*time.ParseError](err); ok {
		err = fmt.Errorf("%q: want an instant such as 2006-01-02T15:04:05Z", e.Value)
	}
	return NewProblem(http.StatusBadRequest, "the body: "+err.Error())
}
