package pg

import (
	"database/sql/driver"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Composite is a value of a composite type: its fields in order. The server reads one parameter
// with many fields faster than many parameters.
type Composite []any

// Value implements [driver.Valuer].
func (c Composite) Value() (driver.Value, error) {
	var b strings.Builder
	for i, field := range c {
		b.WriteByte("(,"[min(i, 1)])
		value, err := driver.DefaultParameterConverter.ConvertValue(field)
		if err != nil {
			return nil, fmt.Errorf("field %d: %w", i+1, err)
		}
		switch v := value.(type) {
		case nil: // becomes an empty field
		case int64:
			b.WriteString(strconv.FormatInt(v, 10))
		case bool:
			b.WriteString(strconv.FormatBool(v))
		case time.Time:
			b.WriteString(`"` + v.UTC().Format(instant) + `"`)
		case string:
			b.WriteString(`"` + quoteField.Replace(v) + `"`)
		default:
			return nil, fmt.Errorf("field %d: a %T cannot be a field", i+1, v)
		}
	}
	b.WriteByte(')')
	return b.String(), nil
}

var quoteField = strings.NewReplacer(`"`, `""`, `\`, `\\`)
