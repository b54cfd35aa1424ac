package main

import (
	"bufio"
	"embed"
	"encoding/json"
	"fmt"
	"strings"
)

// files is what is asked; see data/README.md.
//
//go:embed data/*.jsonl
var files embed.FS

// half says what a line may be used for.
type half string

const (
	tune half = "tune" // to choose words by
	held half = "held" // to judge by
	all  half = "all"  // both; no line has it
)

// prompt is something that a user says, and the agent that should answer it.
type prompt struct {
	Text  string `json:"text"`
	Right string `json:"right"`
	Also  string `json:"also,omitempty"` // is as good, if not empty
}

// message is the first one of a session of its own.
type message struct {
	ID    string `json:"id"`
	Half  half   `json:"half"`
	Lang  string `json:"lang"`
	Style string `json:"style"`
	prompt
}

type conversation struct {
	ID    string   `json:"id"`
	Half  half     `json:"half"`
	Turns []prompt `json:"turns"`
}

// role is an agent of the tree.
type role struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Instruction string `json:"instruction"`
}

type data struct {
	roles         []role // the coordinator first
	messages      []message
	conversations []conversation
}

func load() (data, error) {
	var d data
	var err error
	if d.roles, err = lines[role]("data/agents.jsonl"); err != nil {
		return data{}, err
	}
	if d.messages, err = lines[message]("data/messages.jsonl"); err != nil {
		return data{}, err
	}
	d.conversations, err = lines[conversation]("data/conversations.jsonl")
	return d, err
}

func lines[T any](name string) ([]T, error) {
	text, err := files.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return decode[T](name, string(text))
}

// decode reads one value a line.
func decode[T any](name, text string) ([]T, error) {
	var out []T
	scan := bufio.NewScanner(strings.NewReader(text))
	scan.Buffer(nil, 16<<20) // a record holds all answers of a conversation
	for n := 1; scan.Scan(); n++ {
		var v T
		if err := json.Unmarshal(scan.Bytes(), &v); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		out = append(out, v)
	}
	return out, scan.Err()
}

// of returns the first n of those that belong to a half; n below 0 means all.
func of[T any](of half, n int, from []T, belongs func(T) half) []T {
	var out []T
	for _, v := range from {
		if (of == all || belongs(v) == of) && (n < 0 || len(out) < n) {
			out = append(out, v)
		}
	}
	return out
}
