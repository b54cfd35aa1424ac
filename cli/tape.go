package cli

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/llm/cassette"
	"github.com/agentarbor/arbor/llm/openai"
)

// tape is what the models' endpoint says to the command, in a file.
type tape struct {
	record, replay string // files, "" unless given
	client         *http.Client
	player         *cassette.Player
}

func (p *program) tapeFlags(fs *pflag.FlagSet) {
	fs.StringVar(&p.tape.record, "record", "", "record the requests to the model endpoint and its answers in `FILE`")
	fs.StringVar(&p.tape.replay, "replay", "", "answer from `FILE`, a recording of --record, without an endpoint")
	fs.DurationVar(&p.timeouts.FirstByte, "timeout-first", 0, "wait at most `TIME` for the first text of a streamed answer (default 5m; negative: no limit)")
	fs.DurationVar(&p.timeouts.Idle, "timeout-silence", 0, "wait at most `TIME` between two parts of a streamed answer (default 1m; negative: no limit)")
	fs.DurationVar(&p.timeouts.Attempt, "timeout-answer", 0, "wait at most `TIME` for a whole answer (default 10m; negative: no limit)")
}

// endpoint returns the environment that describes the models' endpoint, and what the flags add to it.
func (p *program) endpoint() (getenv func(string) string, opts []openai.Option, err error) {
	t := &p.tape
	switch {
	case t.record == "" && t.replay == "":
		return p.Getenv, []openai.Option{openai.WithTimeouts(p.timeouts)}, nil
	case t.record != "" && t.replay != "":
		return nil, nil, usagef("--record and --replay cannot be given together")
	case t.record != "" && p.Getenv("OPENAI_BASE_URL") == "" && p.Getenv("OPENAI_API_KEY") == "":
		return nil, nil, usagef("--record is given, but there is no endpoint: set OPENAI_API_KEY or OPENAI_BASE_URL")
	case t.client == nil:
		if err := p.openTape(); err != nil {
			return nil, nil, usageError{err}
		}
	}
	getenv = p.Getenv
	if t.player != nil {
		getenv = t.described(p.Getenv)
	}
	return getenv, []openai.Option{openai.WithTimeouts(p.timeouts), openai.WithHTTPClient(t.client)}, nil
}

func (p *program) openTape() error {
	t := &p.tape
	if t.record != "" {
		r, err := cassette.Record(t.record, nil)
		if err != nil {
			return err
		}
		p.atEnd(func() {
			if err := r.Close(); err != nil {
				p.say("not everything was recorded: %s", err)
			}
		})
		t.client = &http.Client{Transport: r}
		return nil
	}
	player, err := cassette.Replay(t.replay)
	if err != nil {
		return err
	}
	if path, _ := player.First(); path == "" {
		return errors.New(t.replay + ": nothing was recorded")
	}
	t.player, t.client = player, &http.Client{Transport: player}
	return nil
}

// described is an environment that speaks to the recorded endpoint as it was spoken to, whatever the
// address of ours is. A model that is named counts: a request for another one was not recorded.
func (t *tape) described(getenv func(string) string) func(string) string {
	path, body := t.player.First()
	api := "chat"
	base, ok := strings.CutSuffix(path, "/chat/completions")
	if !ok {
		base, ok = strings.CutSuffix(path, "/responses")
		if ok {
			api = "responses"
		}
	}
	var asked struct{ Model string }
	_ = json.Unmarshal(body, &asked) // then no model is known
	return func(name string) string {
		switch name {
		case "OPENAI_BASE_URL":
			return "http://replayed.invalid" + base
		case "OPENAI_API":
			return api
		case "OPENAI_MODEL":
			if given := getenv(name); given != "" {
				return given
			}
			return asked.Model
		}
		return getenv(name)
	}
}
