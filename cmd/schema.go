package cmd

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/exit"
)

// jsonTopic is the page of help about the JSON of commands.
const jsonTopic = "json"

// schemaFile is the JSON Schema of what commands print. A test writes it, from the types that they print.
//
//go:embed json.schema.json
var schemaFile []byte

// definitions matches the references of a schema to others.
var definitions = regexp.MustCompile(`"#/\$defs/([^"]+)"`)

// newJSONTopic returns a page of help that is not a command, and no text: a JSON Schema.
func newJSONTopic() *cobra.Command {
	return &cobra.Command{
		Use:   jsonTopic,
		Short: "The JSON Schema of what commands print; of one command: help json COMMAND",
		Long: `Commands print JSON with --output json. "help json" prints the JSON Schema of all of them, and
"help json COMMAND" that of one command.`,
	}
}

// writeSchema writes the JSON Schema of all commands, or of the command whose words are given.
func writeSchema(out io.Writer, root *cobra.Command, words []string) error {
	if len(words) == 0 {
		_, err := out.Write(schemaFile)
		return err
	}
	var all struct {
		Schema string                     `json:"$schema"`
		Ref    string                     `json:"$ref"`
		Defs   map[string]json.RawMessage `json:"$defs"`
	}
	if err := json.Unmarshal(schemaFile, &all); err != nil {
		return err
	}
	name := strings.Join(words, "-")
	if all.Defs[name] == nil || name != strings.ToLower(name) {
		return exit.Usagef("there is no JSON Schema of %q; the commands with one are %s", strings.Join(words, " "),
			strings.Join(schemasBeside(root, words[0]), ", "))
	}
	used := map[string]json.RawMessage{}
	var use func(name string)
	use = func(name string) {
		if used[name] != nil {
			return
		}
		used[name] = all.Defs[name]
		for _, ref := range definitions.FindAllSubmatch(all.Defs[name], -1) {
			use(string(ref[1]))
		}
	}
	use(name)
	all.Ref, all.Defs = "#/$defs/"+name, used
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(all); err != nil {
		return err
	}
	_, err := text.WriteTo(out)
	return err
}

// schemasBeside returns the commands that print JSON: those of the group that is named, or all.
func schemasBeside(root *cobra.Command, group string) (names []string) {
	var all []string
	var walk func(c *cobra.Command, path string)
	walk = func(c *cobra.Command, path string) {
		for _, sub := range c.Commands() {
			walk(sub, strings.TrimSpace(path+" "+sub.Name()))
		}
		if c.Flags().Lookup("output") == nil || c.Hidden {
			return
		}
		all = append(all, path)
		if strings.HasPrefix(path, group+" ") {
			names = append(names, path)
		}
	}
	walk(root, "")
	if len(names) == 0 {
		names = all
	}
	slices.Sort(names)
	return names
}
