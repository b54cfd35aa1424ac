package factory

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
	Record, Replay string // files, "" unless given
	client         *http.Client
	player         *cassette.Player
}

// TapeFlags adds the flags of the endpoint's recording and of its timeouts.
func TapeFlags(f *Factory, fs *pflag.FlagSet) {
	fs.StringVar(&f.Tape.Record, "record", "", "record the requests to the model endpoint and its answers in `FILE`")
	fs.StringVar(&f.Tape.Replay, "replay", "", "answer from `FILE`, a recording of --record, without an endpoint")
	fs.DurationVar(&f.timeouts.FirstByte, "timeout-first", 0, "wait at most `TIME` for the first text of a streamed answer (default 5m; negative: no limit)")
	fs.DurationVar(&f.timeouts.Idle, "timeout-silence", 0, "wait at most `TIME` between two parts of a streamed answer (default 1m; negative: no limit)")
	fs.DurationVar(&f.timeouts.Attempt, "timeout-answer", 0, "wait at most `TIME` for a whole answer (default 10m; negative: no limit)")
}

// endpoint returns the environment that describes the models' endpoint, and what the flags add to it.
func endpoint(f *Factory) (getenv func(string) string, opts []openai.Option, err error) {
	t := &f.Tape
	switch {
	case t.Record == "" && t.Replay == "":
		return f.Getenv, []openai.Option{openai.WithTimeouts(f.timeouts)}, nil
	case t.Record != "" && t.Replay != "":
		return nil, nil, Usagef("--record and --replay cannot be given together")
	case t.Record != "" && f.Getenv("OPENAI_BASE_URL") == "" && f.Getenv("OPENAI_API_KEY") == "":
		return nil, nil, Usagef("--record is given, but there is no endpoint: set OPENAI_API_KEY or OPENAI_BASE_URL")
	case t.client == nil:
		if err := openTape(f); err != nil {
			return nil, nil, Usage(err)
		}
	}
	getenv = f.Getenv
	if t.player != nil {
		getenv = t.described(f.Getenv)
	}
	return getenv, []openai.Option{openai.WithTimeouts(f.timeouts), openai.WithHTTPClient(t.client)}, nil
}

func openTape(f *Factory) error {
	t := &f.Tape
	if t.Record != "" {
		r, err := cassette.Record(t.Record, nil)
		if err != nil {
			return err
		}
		f.AtEnd(func() {
			if err := r.Close(); err != nil {
				f.Say("not everything was recorded: %s", err)
			}
		})
		t.client = &http.Client{Transport: r}
		return nil
	}
	player, err := cassette.Replay(t.Replay)
	if err != nil {
		return err
	}
	if path, _ := player.First(); path == "" {
		return errors.New(t.Replay + ": nothing was recorded")
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
