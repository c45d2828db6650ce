package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// State is where a file of a spool stands.
type State string

// The states.
const (
	// StateWaiting: its slot has not begun.
	StateWaiting State = "waiting"
	// StateDue: its slot is the current one.
	StateDue State = "due"
	// StateMissed: its slot is over, and it is for catch-up.
	StateMissed State = "missed"
	// StateRunning: its check has not ended, whether its runner lives or not.
	StateRunning State = "running"
	// StateRefused: it is never run as it is.
	StateRefused State = "refused"
)

// File is what is in a slot, or where a slot should be.
type File struct {
	// Slot is zero for what stands beside the slots.
	Slot  time.Time `json:"slot,omitzero"`
	Name  string    `json:"name"`
	State State     `json:"state"`
	// Problem says why it is refused, and what to do about it.
	Problem string `json:"problem"`
	Job
}

// List returns what waits, runs or is refused, in the order of slots and names; what stands beside the slots is last.
func (s *Spool) List() ([]File, error) {
	unlock, err := s.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	entries, err := readDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list the spool: %w", err)
	}
	var list, beside []File
	for _, info := range entries {
		if why := s.slotRefusal(info); why != "" {
			if !s.own(info.Name()) {
				beside = append(beside, File{Name: info.Name(), State: StateRefused, Problem: why})
			}
			continue
		}
		slot, _ := parseSlot(info.Name())
		files, err := s.listSlot(slot)
		if err != nil {
			return nil, fmt.Errorf("list slot %s: %w", slot.Format(time.RFC3339), err)
		}
		list = append(list, files...)
	}
	return append(list, beside...), nil
}

// own tells whether a name beside the slots is the spool's.
func (s *Spool) own(name string) bool {
	isTemp, _ := filepath.Match(tempPattern, name)
	return isTemp || name == historyDir
}

func (s *Spool) listSlot(slot time.Time) ([]File, error) {
	infos, err := s.files(slotName(slot))
	if err != nil {
		return nil, err
	}
	var list []File
	for _, info := range infos {
		f := File{Slot: slot, Name: info.Name(), State: s.state(slot), Problem: refusal(info)}
		path := s.path(slot, f.Name)
		if f.Problem == "" {
			if f.Job, err = readJob(path); err != nil {
				f.Problem = err.Error()
			}
		}
		switch {
		case f.Problem != "":
			f.State = StateRefused
		case held(path):
			f.State = StateRunning
		}
		list = append(list, f)
	}
	return list, nil
}

// state is that of an executable in a slot, when it does not run.
func (s *Spool) state(slot time.Time) State {
	switch current := s.current(); {
	case slot.After(current):
		return StateWaiting
	case slot.Equal(current):
		return StateDue
	}
	return StateMissed
}

// files lists what is in a slot's directory, without what the spool itself keeps there.
func (s *Spool) files(slot string) ([]fs.FileInfo, error) {
	entries, err := readDir(filepath.Join(s.dir, slot))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	files, _ := content(entries)
	return files, err
}

// History returns what ended, the newest slot first, up to limit entries.
func (s *Spool) History(limit int) ([]Ended, error) {
	history := filepath.Join(s.dir, historyDir)
	slots, err := os.ReadDir(history)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list history: %w", err)
	}
	var list []Ended
	for _, slot := range slices.Backward(slots) {
		entries, err := os.ReadDir(filepath.Join(history, slot.Name()))
		if err != nil {
			return nil, fmt.Errorf("list history: %w", err)
		}
		for _, entry := range entries {
			if len(list) == limit {
				return list, nil
			}
			ended, err := readEnded(filepath.Join(history, slot.Name(), entry.Name()))
			switch {
			case err == nil:
				list = append(list, ended)
			case !errors.Is(err, fs.ErrNotExist):
				return nil, fmt.Errorf("read history: %w", err)
			}
		}
	}
	return list, nil
}

// readEnded reads an entry of history. Without its executable it is none.
func readEnded(path string) (Ended, error) {
	if _, err := os.Lstat(filepath.Join(path, executableFile)); err != nil {
		return Ended{}, err
	}
	text, err := readFile(filepath.Join(path, resultFile))
	if err != nil {
		return Ended{}, err
	}
	ended := Ended{Path: path}
	if err := json.Unmarshal(text, &ended); err != nil {
		return Ended{}, fmt.Errorf("%s: %w", filepath.Join(path, resultFile), err)
	}
	return ended, nil
}
