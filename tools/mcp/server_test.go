package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestMain makes the test binary a server where a test has started it as one.
func TestMain(m *testing.M) {
	switch mode := os.Getenv("SERVER"); mode {
	case "":
		os.Exit(m.Run())
	case "kind":
		_ = kind().Run(context.Background(), &sdk.StdioTransport{})
	case "kind-legacy":
		_ = kind().Run(context.Background(), legacy{&sdk.StdioTransport{}})
	default:
		hostile(mode)
	}
}

// legacy is a transport that speaks the protocol before version 2026-07-28.
type legacy struct{ sdk.Transport }

func (legacy) SupportsProtocolVersion(v string) bool { return v < "2026-07-28" }

type words struct {
	Text string `json:"text"`
	N    int    `json:"n,omitempty"`
}

func say(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}

// kind is a server as servers should be.
func kind() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "kind", Version: "1"}, nil)
	add := func(name string, call func(context.Context, *sdk.CallToolRequest, words) (*sdk.CallToolResult, any, error), hints ...func(*sdk.Tool)) {
		t := &sdk.Tool{Name: name, Description: "The tool " + name}
		for _, h := range hints {
			h(t)
		}
		sdk.AddTool(s, t, call)
	}
	released := make(chan bool, 100)
	add("echo", func(_ context.Context, _ *sdk.CallToolRequest, in words) (*sdk.CallToolResult, any, error) {
		if in.Text == "go on" {
			released <- true
		}
		return say(in.Text), nil, nil
	}, func(t *sdk.Tool) { t.Annotations = &sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true} })
	add("env.list", func(context.Context, *sdk.CallToolRequest, words) (*sdk.CallToolResult, any, error) {
		dir, err := os.Getwd()
		return say(strings.Join(os.Environ(), " ") + " in " + dir), nil, err
	})
	add("fail", func(context.Context, *sdk.CallToolRequest, words) (*sdk.CallToolResult, any, error) {
		return nil, nil, fmt.Errorf("the disk is full")
	})
	add("object", func(_ context.Context, _ *sdk.CallToolRequest, in words) (*sdk.CallToolResult, any, error) {
		return nil, map[string]any{"n": in.N}, nil
	})
	add("parts", func(context.Context, *sdk.CallToolRequest, words) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{
			&sdk.TextContent{Text: "look:"}, &sdk.ImageContent{MIMEType: "image/png", Data: []byte("12345")},
			&sdk.ResourceLink{URI: "file:///a", Name: "a"}, &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///b", Text: "in b"}},
		}}, nil, nil
	})
	add("steps", func(ctx context.Context, req *sdk.CallToolRequest, in words) (*sdk.CallToolResult, any, error) {
		for i := range in.N {
			_ = req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: float64(i + 1), Total: float64(in.N), Message: "step"})
			<-released
		}
		return say("done"), nil, nil
	})
	add("grow", func(_ context.Context, _ *sdk.CallToolRequest, in words) (*sdk.CallToolResult, any, error) {
		add(in.Text, func(context.Context, *sdk.CallToolRequest, words) (*sdk.CallToolResult, any, error) {
			return say("here"), nil, nil
		})
		s.RemoveTools("parts")
		return say("grown"), nil, nil
	})
	var calls atomic.Int64
	both := make(chan bool, 2)
	seat := json.RawMessage(`{"type":"object","properties":{"seat":{"type":"string"}},"required":["seat"]}`)
	question := func(i int) *sdk.ElicitParams {
		return &sdk.ElicitParams{Message: fmt.Sprintf("Which seat, %d?", i+1), RequestedSchema: seat}
	}
	booked := func(text string, n int64, answers []string) *sdk.CallToolResult {
		return say(fmt.Sprintf("%s: %s; call %d", text, strings.Join(answers, ", "), n))
	}
	// book asks while it runs, as before version 2026-07-28, and reserve as since then.
	add("book", func(ctx context.Context, req *sdk.CallToolRequest, in words) (*sdk.CallToolResult, any, error) {
		n := calls.Add(1)
		if in.Text == "together" { // only asks when two calls run
			both <- true
			for len(both) < 2 {
				runtime.Gosched()
			}
		}
		var answers []string
		for i := range max(in.N, 1) {
			got, err := req.Session.Elicit(ctx, question(i))
			if err != nil {
				return nil, nil, err
			}
			answers = append(answers, fmt.Sprintf("%s %v", got.Action, got.Content["seat"]))
		}
		return booked(in.Text, n, answers), nil, nil
	})
	add("reserve", func(ctx context.Context, req *sdk.CallToolRequest, in words) (*sdk.CallToolResult, any, error) {
		state := strings.Fields(req.Params.RequestState) // the number of the call, and the answers
		if len(state) == 0 {
			state = []string{fmt.Sprint(calls.Add(1))}
		}
		if r, ok := req.Params.InputResponses["q"].(*sdk.ElicitResult); ok {
			state = append(state, fmt.Sprintf("%s-%v", r.Action, r.Content["seat"]))
		}
		if len(state) <= max(in.N, 1) {
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"q": question(len(state) - 1)}, RequestState: strings.Join(state, " ")}, nil, nil
		}
		return say(fmt.Sprintf("%s: %s; call %s", in.Text, strings.ReplaceAll(strings.Join(state[1:], ", "), "-", " "), state[0])), nil, nil
	})
	s.AddResource(&sdk.Resource{URI: "memo:one", Name: "one", MIMEType: "text/plain"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "memo:one", Text: "the first memo"}}}, nil
	})
	s.AddPrompt(&sdk.Prompt{Name: "greet", Arguments: []*sdk.PromptArgument{{Name: "who"}}}, func(_ context.Context, req *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: "Greet " + req.Params.Arguments["who"]}}}}, nil
	})
	return s
}

// hostile is a server that does one thing as it must not be done, and all else well, in
// the protocol before version 2026-07-28.
func hostile(mode string) {
	out := bufio.NewWriter(os.Stdout)
	send := func(format string, args ...any) {
		fmt.Fprintf(out, format+"\n", args...)
		out.Flush()
	}
	switch mode {
	case "exits":
		fmt.Fprintln(os.Stderr, "cannot read the config, token=abcdefgh12345678")
		os.Exit(3)
	case "mute":
		time.Sleep(time.Hour)
	case "banner":
		fmt.Fprint(out, "Welcome!\n{not json}\n[]\n{}\n{\"jsonrpc\":\"2.0\",\"id\":999,\"result\":{}}\n\x00\xff\n\n")
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
	}
	var waits string // the id of a call without an answer
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<24)
	for in.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Name      string
				Arguments words
			}
		}
		if json.Unmarshal(in.Bytes(), &m) != nil {
			continue
		}
		id := string(m.ID)
		result := func(format string, args ...any) {
			send(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, fmt.Sprintf(format, args...))
		}
		text := func(s string) { result(`{"content":[{"type":"text","text":%q}]}`, s) }
		switch m.Method {
		case "server/discover":
			if mode == "dies-at-discover" {
				os.Exit(1)
			}
			if mode != "silent-at-discover" {
				send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, id)
			}
		case "initialize":
			result(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"h","version":"1"}}`)
		case "ping":
			if mode != "hangs" {
				result(`{}`)
			}
		case "tools/list":
			list := []string{`{"name":"echo","inputSchema":{"type":"object"}}`, `{"name":"bad","inputSchema":{"type":"object"}}`}
			next := ""
			switch mode {
			case "thousands":
				for i := range 5000 {
					list = append(list, fmt.Sprintf(`{"name":"t%d","description":"x","inputSchema":{"type":"object"}}`, i))
				}
			case "endless":
				next = `,"nextCursor":"again"`
			case "odd":
				list = append(list, `null`, `{"name":"","inputSchema":{"type":"object"}}`, `{"name":"no schema"}`, `{"name":"list","inputSchema":{"type":"array"}}`, `{"name":"1password.get","inputSchema":{"type":"object"}}`, `{"name":"_1password_get","inputSchema":{"type":"object"}}`,
					`{"name":"a.b","inputSchema":{"type":"object"}}`, `{"name":"a/b","inputSchema":{"type":"object"}}`, `{"name":"wrong","inputSchema":{"type":"object","properties":{"x":{"minLength":"many"}}}}`,
					fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, strings.Repeat("n", 100)))
			}
			result(`{"tools":[%s]%s}`, strings.Join(list, ","), next)
		case "tools/call":
			if m.Params.Name == "echo" {
				text(m.Params.Arguments.Text)
				continue
			}
			switch mode { // what the tool bad does
			case "dies":
				os.Exit(1)
			case "deaf":
				select {} // and reads no more
			case "hangs", "silent":
			case "huge", "huge-js":
				answer := fmt.Sprintf(`"result":{"content":[{"type":"text","text":"%s"}]}`, strings.Repeat("x", 40<<20))
				if mode == "huge" {
					send(`{"jsonrpc":"2.0","id":%s,%s}`, id, answer)
				} else {
					send(`{%s,"jsonrpc":"2.0","id":%s}`, answer, id)
				}
			case "long":
				text(strings.Repeat("y", 1<<20))
			case "closing": // with the code by which the SDK means that a connection is closing
				if m.Params.Arguments.Text == "pay" {
					send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32004,"message":"paid, and the receipt is lost"}}`, id)
					continue
				}
				text(fmt.Sprint("process ", os.Getpid()))
			case "null":
				result(`null`)
			case "wrong-type":
				result(`{"content":[{"type":"hologram"}],"structuredContent":7}`)
			case "swaps": // the answers of two calls
				if waits == "" {
					waits = id
					continue
				}
				send(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"for the second"}]}}`, waits)
				text("for the first")
			case "strangers":
				send(`{"jsonrpc":"2.0","id":123456,"result":{}}`)
				send(`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}`)
				text("mine")
				text("mine again")
			case "nil-params":
				for _, method := range []string{"elicitation/complete", "progress", "message", "cancelled", "tools/list_changed", "resources/updated", "subscriptions/acknowledged", "nonsense"} {
					send(`{"jsonrpc":"2.0","method":"notifications/%s"}`, method)
					send(`{"jsonrpc":"2.0","method":"notifications/%s","params":null}`, method)
				}
				for i, method := range []string{"elicitation/create", "sampling/createMessage", "roots/list", "ping", "nonsense"} {
					send(`{"jsonrpc":"2.0","id":%d,"method":%q}`, 100+i, method)
				}
				text("still here")
			case "asks-again": // an answer is asked for of a call that is no more
				send(`{"jsonrpc":"2.0","id":"q1","method":"elicitation/create","params":{"message":"Who?","requestedSchema":{"type":"object","properties":{}}}}`)
			case "flood":
				for i := range 3000 {
					send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"1","progress":%d}}`, i)
					send(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				}
				text("done")
			default:
				text("fine")
			}
		}
	}
	if mode == "stubborn" {
		time.Sleep(time.Hour)
	}
}
