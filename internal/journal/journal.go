// Package journal has the short form in which a row records a check that asked for another check. It
// is 12 characters long, because each check writes a row's whole journal again. The functions
// prescient.journal_check and prescient.journal_value read it, too.
package journal

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/bits"
	"strings"
	"time"
)

// Check is a check that succeeded and asked for another.
type Check struct {
	Slot     time.Time     // in whole seconds
	Runner   int           // its number among the runners of the slot, from 1 on
	Lateness time.Duration // from the slot to its start, in milliseconds; of more than 4 seconds four digits are kept
	Duration time.Duration // in microseconds; of more than 4 milliseconds four digits are kept
}

// Short returns the line for c. It returns false if c needs JSON: from 37 hours of lateness, two
// minutes of duration or the 256th runner on, and in the year 2106.
func (c Check) Short() (line string, ok bool) {
	slot, late, took := c.Slot.Unix(), c.Lateness.Milliseconds(), c.Duration.Microseconds()
	if slot < 0 || slot > math.MaxUint32 || c.Runner < 1 || c.Runner > math.MaxUint8 || !fits(late) || !fits(took) {
		return "", false
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(slot))
	b = append(b, byte(c.Runner))
	b = binary.BigEndian.AppendUint16(b, pack(late))
	b = binary.BigEndian.AppendUint16(b, pack(took))
	return base64.StdEncoding.EncodeToString(b), true
}

// Parse reads a line of Short, with or without a line feed.
func Parse(line string) (c Check, ok bool) {
	b, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(line, "\n"))
	if err != nil || len(b) != 9 {
		return c, false
	}
	return Check{
		Slot: time.Unix(int64(binary.BigEndian.Uint32(b)), 0).UTC(), Runner: int(b[4]),
		Lateness: time.Duration(unpack(binary.BigEndian.Uint16(b[5:]))) * time.Millisecond,
		Duration: time.Duration(unpack(binary.BigEndian.Uint16(b[7:]))) * time.Microsecond,
	}, true
}

// Move is an entry of a journal about a move of the row; see prescient.journal_entry.
type Move struct {
	Slot     time.Time // the slot it left
	At       time.Time // when it left
	Taken    bool      // it was not checked there
	Returned bool      // it came back from history: it was in no slot
}

// ParseMove reads a line of a journal, in the short form or as JSON. It returns false if the line is about something
// else.
func ParseMove(line string) (m Move, ok bool) {
	if strings.HasPrefix(line, "{") {
		return parseChange(line)
	}
	if c, ok := Parse(line); ok {
		return Move{Slot: c.Slot, At: c.Slot.Add(c.Lateness)}, true
	}
	var parts []json.RawMessage
	var what string
	var slot, late, at int64
	if json.Unmarshal([]byte(line), &parts) != nil || len(parts) < 2 || json.Unmarshal(parts[0], &what) != nil ||
		json.Unmarshal(parts[1], &slot) != nil {
		return m, false
	}
	m.Slot = time.Unix(slot, 0).UTC()
	if len(parts) > 3 && json.Unmarshal(parts[3], &late) == nil {
		m.At = m.Slot.Add(time.Duration(late) * time.Millisecond)
	}
	if m.Taken = what == "deferred"; m.Taken && len(parts) > 6 && json.Unmarshal(parts[6], &at) == nil {
		m.At = time.UnixMilli(at).UTC()
	}
	return m, !m.At.IsZero()
}

// parseChange reads a change by a caller.
func parseChange(line string) (m Move, ok bool) {
	var change struct {
		What string `json:"what"`
		At   int64  `json:"at"`
		Slot int64  `json:"slot"`
	}
	if json.Unmarshal([]byte(line), &change) != nil {
		return m, false
	}
	switch change.What {
	case "rescheduled", "pushed_back", "width", "retried":
	default:
		return m, false
	}
	return Move{time.Unix(change.Slot, 0).UTC(), time.UnixMilli(change.At).UTC(), true, change.What == "retried"}, true
}

// digits is how many bits of a number are kept. The four bits before them say how many are left
// out.
const digits = 12

func fits(n int64) bool { return n >= 0 && bits.Len64(uint64(n)) <= digits+15 }

func pack(n int64) uint16 {
	left := max(0, bits.Len64(uint64(n))-digits)
	return uint16(left)<<digits | uint16(n>>left)
}

func unpack(n uint16) int64 { return int64(n&(1<<digits-1)) << (n >> digits) }
