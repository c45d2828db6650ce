package strictjson

// Deeper tells whether valid JSON is nested deeper than so many levels. Package encoding/json writes and reads 10,000 levels and no
// more: a text of nearly as many that is put into another cannot be written, nor can what stands beside it there.
func Deeper(text []byte, most int) bool {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = stringEnd(text, i)
		case '[', '{':
			if depth++; depth > most {
				return true
			}
		case ']', '}':
			depth--
		}
	}
	return false
}

// stringEnd is where the string ends that begins at i: its last quote.
func stringEnd(text []byte, i int) int {
	for i++; i < len(text) && text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i
}
