package web

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Naming says how the schemas of types are called and described.
type Naming struct {
	// Prefix begins the references to schemas, such as #/components/schemas/.
	Prefix string
	// Enums are the values of texts that have few, by type.
	Enums map[reflect.Type]any
	// Names are the names of schemas, by type. Others are called as the type, after its package
	// unless that is one of Own.
	Names map[reflect.Type]string
	Own   []string
	// Comments are the comments of types, and of their fields, which the compiler drops: board.Slot, and
	// board.Slot.Took. A test writes them.
	Comments map[string]string
	// Common describe fields that have no comment, by their name in JSON.
	Common map[string]string
	// Open lets objects have fields that their schema does not have, and describes fields that are objects, too.
	Open bool
}

// Schemas are the JSON schemas of types.
type Schemas struct {
	Naming
	All  Object            // the schemas of structs, by name
	Used map[string]string // the comments that they have used
}

// Start returns a Schemas without any schema.
func (n Naming) Start() *Schemas {
	return &Schemas{Naming: n, All: Object{}, Used: map[string]string{}}
}

// Of returns the schema of a type in a body or in an answer.
func (s *Schemas) Of(t reflect.Type, body bool) Object {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return Object{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[json.RawMessage]():
		return Object{
			"type":                 []string{"object", "array", "string", "number", "boolean", "null"},
			"additionalProperties": true,
		}
	case t.Kind() == reflect.Pointer:
		return orNull(s.Of(t.Elem(), body))
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return Object{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Slice:
		return Object{"type": "array", "items": s.Of(t.Elem(), body)}
	case reflect.Map:
		return Object{"type": "object"}
	case reflect.Struct:
		return s.structure(t, body)
	case reflect.String:
		o := Object{"type": "string"}
		if values, few := s.Enums[t]; few {
			o["enum"] = values
		}
		return o
	case reflect.Bool:
		return Object{"type": "boolean"}
	case reflect.Float64:
		return Object{"type": "number"}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return Object{"type": "integer", "format": "int64"}
	}
	panic(fmt.Sprintf("no schema for %v", t)) // a test makes the document
}

// orNull returns the schema of a value that may also be null.
func orNull(schema Object) Object { return Object{"anyOf": []Object{schema, {"type": "null"}}} }

// structure returns a reference to the schema of a struct.
func (s *Schemas) structure(t reflect.Type, body bool) Object {
	name := s.name(t)
	ref := Object{"$ref": s.Prefix + name}
	if s.All[name] != nil {
		return ref
	}
	o := Object{"type": "object"}
	if !s.Open {
		o["additionalProperties"] = false
	}
	s.All[name] = o
	if says := s.comment(t.String()); says != "" {
		if rest, named := strings.CutPrefix(says, upperFirst(t.Name())); named && s.Names[t] != "" {
			says = s.Names[t] + rest
		}
		o["description"] = says
	}
	properties, required := Object{}, map[string]bool{}
	s.fields(t, body, properties, required)
	o["properties"] = properties
	if len(required) > 0 {
		o["required"] = slices.Sorted(maps.Keys(required))
	}
	return ref
}

// name returns the name of the schema of a struct.
func (s *Schemas) name(t reflect.Type) string {
	if name := s.Names[t]; name != "" {
		return name
	}
	if pkg := path.Base(t.PkgPath()); pkg != "web" && !slices.Contains(s.Own, pkg) {
		return upperFirst(pkg) + upperFirst(t.Name())
	}
	return upperFirst(t.Name())
}

func upperFirst(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// fields adds the fields of a struct, and of those that it embeds.
func (s *Schemas) fields(t reflect.Type, body bool, properties Object, required map[string]bool) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		for _, needed := range strings.Fields(f.Tag.Get("required")) {
			required[needed] = true
		}
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
			continue
		case name == "" && f.Anonymous:
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			s.fields(inner, body, properties, required)
			if _, nullable := f.Tag.Lookup("nullable"); nullable {
				for name, schema := range properties {
					properties[name] = orNull(schema.(Object))
				}
			}
			continue
		}
		schema := s.Of(f.Type, body)
		if options == "string" {
			schema = Object{"type": "string"}
		}
		says := cmp.Or(s.comment(t.String()+"."+f.Name), s.Common[name])
		if says != "" && (schema["$ref"] == nil || s.Open) {
			schema["description"] = says
		}
		properties[name] = schema
		if !body && !strings.Contains(options, "omit") {
			required[name] = true
		}
	}
}

// comment returns the comment of a type, or of a field.
func (s *Schemas) comment(name string) string {
	says := s.Comments[name]
	if says != "" {
		s.Used[name] = says
	}
	return says
}
