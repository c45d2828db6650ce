package strictjson

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
)

// shape describes a Go type to the scanner.
type shape struct {
	fields map[string]*shape // of a struct, by their names in JSON; nil: any key is allowed
	elem   *shape            // of a list or a map
	lossy  bool              // bytes that are not text are allowed; see Text
}

// free is the shape of any JSON. raw is the shape of JSON that stays as it is written, such as a
// payload, or that decodes itself: its text has rules of its own.
var free, raw = &shape{}, &shape{lossy: true}

func init() { raw.elem = raw }

var (
	shapes      sync.Map // reflect.Type to *shape
	jsonReader  = reflect.TypeFor[json.Unmarshaler]()
	textReader  = reflect.TypeFor[encoding.TextUnmarshaler]()
	lossyString = reflect.TypeFor[Text]()
)

func shapeOf(v any) *shape {
	t := reflect.TypeOf(v)
	if known, ok := shapes.Load(t); ok {
		return known.(*shape)
	}
	s := build(t, map[reflect.Type]*shape{})
	shapes.Store(t, s)
	return s
}

// build returns the shape of a type. made has the shapes that were begun, because a type may
// contain itself.
func build(t reflect.Type, made map[reflect.Type]*shape) *shape {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if known := made[t]; known != nil {
		return known
	}
	switch to := reflect.PointerTo(t); {
	case to.Implements(jsonReader):
		return raw
	case to.Implements(textReader):
		return free
	}
	s := &shape{lossy: t == lossyString}
	made[t] = s
	switch t.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		s.elem = build(t.Elem(), made)
	case reflect.Struct:
		s.fields = map[string]*shape{}
		s.addFields(t, made)
	}
	return s
}

// addFields adds the fields of a struct, and of structs embedded in it.
func (s *shape) addFields(t reflect.Type, made map[reflect.Type]*shape) {
	for field := range t.Fields() {
		tag := field.Tag.Get("json")
		name, _, _ := strings.Cut(tag, ",")
		inner := field.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case tag == "-":
		case field.Anonymous && name == "" && inner.Kind() == reflect.Struct:
			s.addFields(inner, made)
		case !field.IsExported():
		case name == "":
			s.fields[field.Name] = build(field.Type, made)
		default:
			s.fields[name] = build(field.Type, made)
		}
	}
}
