package cli

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Once returns an error if arguments give a flag of a command two different values, and the flag takes one. The library
// would take the last one in silence.
func Once(c *cobra.Command, args []string) (err error) {
	flags := pflag.NewFlagSet(c.Name(), pflag.ContinueOnError)
	c.Flags().VisitAll(flags.AddFlag)
	given := map[string]string{}
	_ = flags.ParseAll(args, func(f *pflag.Flag, value string) error { // the library has reported what cannot be parsed
		before, again := given[f.Name]
		if given[f.Name] = value; again && value != before && err == nil && !repeats(f.Value) {
			err = fmt.Errorf("--%s is given twice, and takes one value", f.Name) // without the values: a URL may have a password
		}
		return nil
	})
	return err
}

// repeats reports whether a flag may be given several times. It is so for a type that is not known here.
func repeats(v pflag.Value) bool {
	if _, is := v.(pflag.SliceValue); is {
		return true
	}
	switch kind := v.Type(); {
	case kind == "count", kind == "func", kind == "boolfunc", strings.HasPrefix(kind, "stringTo"):
		return true
	}
	t := reflect.TypeOf(v)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	const module = "github.com/prescient-go/prescient/"
	return t.PkgPath() != "github.com/spf13/pflag" && !strings.HasPrefix(t.PkgPath(), module)
}
