package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/agentarbor/arbor/llm"
)

// maxMessage bounds a user's message, in bytes.
const maxMessage = 8 << 20

// message returns what the user says: the argument, or standard input for "-"
// and, unless it is a terminal, for no argument. One line break at the end of
// standard input is not part of it.
func (p *program) message(args []string) (llm.Message, error) {
	if len(args) > 0 && args[0] != "-" {
		return checkMessage(args[0])
	}
	if p.Stdin == nil || len(args) == 0 && isTerminal(p.Stdin) {
		return llm.Message{}, usagef("the message is missing: give one in quotes, or - to read it from standard input")
	}
	data, err := io.ReadAll(io.LimitReader(p.Stdin, maxMessage+1))
	if err != nil {
		return llm.Message{}, usagef("the message cannot be read: %w", err)
	}
	return checkMessage(strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"))
}

// checkMessage refuses what no agent can answer. All other text is carried word
// for word.
func checkMessage(text string) (llm.Message, error) {
	var err error
	switch {
	case strings.TrimSpace(text) == "":
		err = errors.New("the message is empty")
	case !utf8.ValidString(text):
		err = errors.New("the message is not valid UTF-8")
	case len(text) > maxMessage:
		err = fmt.Errorf("the message is longer than %d MiB", maxMessage>>20)
	}
	if err != nil {
		return llm.Message{}, usageError{err}
	}
	return llm.UserText(text), nil
}
