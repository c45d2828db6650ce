package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"

	"github.com/prescient-go/prescient/internal/plainyaml"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/internal/strictjson"
	"github.com/prescient-go/prescient/internal/trust"
)

var extensions = []string{".yaml", ".yml", ".toml", ".json"}

// searchPaths returns the default paths of a configuration file, in the order in which they are tried.
func searchPaths() []string {
	files := []string{"prescient.yaml"}
	home := os.Getenv("XDG_CONFIG_HOME")
	if user, err := os.UserHomeDir(); home == "" && err == nil {
		home = filepath.Join(user, ".config")
	}
	if home != "" {
		files = append(files, filepath.Join(home, "prescient", "prescient.yaml"))
	}
	return append(files, "/etc/prescient/prescient.yaml")
}

// findFile returns the configuration file to read and the source that names it. The path is empty
// if there is no file. skipped are the files in default places that another user may have written.
func findFile(flag *pflag.Flag, places []string) (path, by string, skipped []Skipped) {
	if flag != nil {
		return flag.Value.String(), "flag --" + flag.Name, nil
	}
	if path := os.Getenv(fileVariable); path != "" {
		return path, "environment " + fileVariable, nil
	}
	for _, place := range places {
		if full, err := filepath.Abs(place); err == nil {
			place = full
		}
		err := trust.File(place)
		if refused, ok := errors.AsType[*trust.Error](err); ok {
			skipped = append(skipped, Skipped{File: refused.Path, Why: refused.Why, Do: refused.Do})
			continue
		}
		// A directory that this user may not read counts as one without a file.
		if err == nil {
			return place, "the default place", skipped
		}
	}
	return "", "", skipped
}

// Skipped is a configuration file in a default place that was not read, because another user may
// have written it.
type Skipped struct {
	File string // its path from the root
	Why  string // which user owns it or may write to it
	Do   string // the command that makes it count
}

// warning returns the warning about a skipped file for the log.
func (s Skipped) warning() string {
	return fmt.Sprintf("configuration file %s is skipped, since another user may have written it: %s. "+
		"Remove it or, if its content is right, run: %s", s.File, s.Why, s.Do)
}

// byteOrderMark begins the files of some editors.
var byteOrderMark = []byte("\ufeff")

// readFile reads the file at path into v and returns its path from the root. Its error names the
// line, if the parser of the format does.
func readFile(v *viper.Viper, path string) (string, error) {
	if !slices.Contains(extensions, filepath.Ext(path)) {
		return path, fmt.Errorf("the name must end in one of %s", strings.Join(extensions, " "))
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return path, err
	}
	content, err := trust.ReadFile(full)
	if err != nil {
		return full, err
	}
	if !utf8.Valid(content) {
		return full, errors.New("it is not in UTF-8")
	}
	v.SetConfigFile(full)
	err = v.ReadConfig(bytes.NewReader(bytes.TrimPrefix(content, byteOrderMark)))
	if at, ok := errors.AsType[toml](err); ok {
		line, _ := at.Position()
		err = fmt.Errorf("line %d: %w", line, err)
	}
	ext := filepath.Ext(full)
	if err == nil && (ext == ".yaml" || ext == ".yml") {
		err = errors.Join(oneDocument(content), sameValues(content))
	}
	if err == nil {
		err = eachKeyOnce(content, ext[1:])
	}
	return full, err
}

// eachKeyOnce refuses sections and settings that occur twice, perhaps in other capitals: only one
// of them would be read.
func eachKeyOnce(content []byte, format string) error {
	content = bytes.TrimPrefix(content, byteOrderMark)
	if format == "json" { // parsers of the other formats do it themselves
		if err := strictjson.Check(content); err != nil {
			return err
		}
	}
	decoder, err := viper.NewCodecRegistry().Decoder(format)
	if err != nil {
		return err
	}
	file := map[string]any{}
	if err := decoder.Decode(content, file); err != nil {
		return err
	}
	return keysOnce(map[string]string{}, "", file)
}

// keysOnce is eachKeyOnce for the value at path. first has the keys so far, by their path in small
// letters: "run.page" may be a section's setting or a key with a dot.
func keysOnce(first map[string]string, path string, value any) error {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			lower := strings.ToLower(path + key)
			if other, twice := first[lower]; twice {
				return fmt.Errorf("%s has %s and %s, which are the same key: only one of them would be read",
					cmp.Or(strings.TrimSuffix(path, "."), "it"), strings.TrimPrefix(other, path), key)
			}
			first[lower] = path + key
			if err := keysOnce(first, path+key+".", value[key]); err != nil {
				return err
			}
		}
	case []any:
		for i, entry := range value {
			if err := keysOnce(first, fmt.Sprintf("%s entry %d.", strings.TrimSuffix(path, "."), i+1), entry); err != nil {
				return err
			}
		}
	}
	return nil
}

// oneDocument refuses YAML with a second document that is not empty: the parser reads only the
// first.
func oneDocument(content []byte) error {
	documents := yaml.NewDecoder(bytes.NewReader(content))
	var first, second any
	if documents.Decode(&first) == nil && documents.Decode(&second) == nil && second != nil {
		return errors.New("it has more than one document of YAML, and only the first one would be read")
	}
	return nil
}

// sameValues refuses a text that YAML reads as another value, such as 0123 as 83. It does not show
// the text, which may be a secret.
func sameValues(content []byte) error {
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		return err
	}
	var walk func(node *yaml.Node) error
	walk = func(node *yaml.Node) error {
		if _, changed := plainyaml.Changed(node); changed {
			return fmt.Errorf("line %d: YAML reads this number as another one, as it reads 0123 as 83 and 1_000 as 1000: "+
				"write it in decimal digits, or in quotes if it is a text", node.Line)
		}
		if node.Kind == yaml.ScalarNode && node.ShortTag() == "!!timestamp" {
			return fmt.Errorf("line %d: YAML reads this text as a timestamp: write it in quotes", node.Line)
		}
		for _, sub := range node.Content {
			if err := walk(sub); err != nil {
				return err
			}
		}
		return nil
	}
	return walk(&document)
}

// toml is an error of the TOML parser, whose text does not name its place.
type toml interface {
	error
	Position() (line, column int)
}

// isNamed reports whether a key is in a section whose keys are names.
func isNamed(key string) bool {
	for section := range named {
		if key == section || strings.HasPrefix(key, section+".") {
			return true
		}
	}
	return false
}

// unknownKeys returns an error for each key that v has read from the file at path and that is not a
// setting. Nothing else may be attached to v yet. A section without content is allowed: all its
// lines may be comments.
func unknownKeys(v *viper.Viper, path string) []error {
	sections := map[string][]string{}
	for key := range fields(new(Config)) {
		section, setting, _ := strings.Cut(key, ".")
		sections[section] = append(sections[section], setting)
	}
	names := slices.AppendSeq(slices.Collect(maps.Keys(sections)), maps.Keys(lists))
	names = append(names, "receivers")
	slices.Sort(names)
	var problems []error
	for _, key := range slices.Sorted(slices.Values(v.AllKeys())) {
		section, setting, nested := strings.Cut(key, ".")
		known, exists := sections[section]
		empty := exists && !nested && v.Get(key) == nil
		if empty || slices.Contains(known, setting) || lists[section] != "" || isNamed(key) {
			continue
		}
		problem := unknownKey(section, names, "the sections are "+strings.Join(names, ", "))
		if exists {
			problem = unknownKey(setting, known, section+" has "+strings.Join(known, ", "))
		}
		problems = append(problems, fmt.Errorf("set %s from file %s: %s", key, path, problem))
	}
	return problems
}

// unknownKey asks whether one of the known keys was meant, or says which there are.
func unknownKey(typed string, known []string, hint string) string {
	if meant := spoken.Meant(typed, known); meant != "" {
		return "unknown key" + meant
	}
	return "unknown key, correct or remove it; " + hint
}
