package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model/gemini"
	"google.golang.org/adk/v2/server/adkrest"
	"google.golang.org/adk/v2/session"
	"google.golang.org/genai"
)

// process is a server in a separate process.
type process struct {
	*exec.Cmd
	said bytes.Buffer
	url  string
}

// start starts a server on one processor and waits until it prints its address.
func start(ctx context.Context, processor string, env []string, command ...string) (*process, error) {
	command = append([]string{"taskset", "-c", processor}, command...)
	p := &process{Cmd: exec.CommandContext(ctx, command[0], command[1:]...)}
	p.Env, p.Stderr, p.WaitDelay = append(os.Environ(), env...), &p.said, time.Second
	out, err := p.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("%s printed no address: %s", command[len(command)-1], p.said.String())
	}
	p.url = strings.TrimSpace(line)
	return p, nil
}

func (p *process) stop() {
	p.Process.Kill()
	p.Wait()
}

// usage returns the processor time and the resident bytes of the process.
func (p *process) usage() (cpu time.Duration, memory int64, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Process.Pid))
	if err != nil {
		return 0, 0, errors.New("the processor time and the memory of a process are read from /proc, which is not here")
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	pages, _ := strconv.ParseInt(fields[21], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond, pages * int64(os.Getpagesize()), nil
}

const token = "benchmark-token"

// begin starts the turn of the stream with a number, and returns the request that reads its stream.
type begin func(ctx context.Context, client *http.Client, url string, n int) (*http.Request, error)

// server starts the server with a name, and with the model at an endpoint. The binary is Arbor's command.
func server(ctx context.Context, name, binary, dir, endpoint string) (*process, begin, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	if name == "adk" {
		p, err := start(ctx, "0", nil, self, "adk", endpoint)
		return p, beginRun, err
	}
	agents := filepath.Join(dir, "agents")
	if err := os.Mkdir(agents, 0o700); err != nil {
		return nil, nil, err
	}
	if err := os.WriteFile(filepath.Join(agents, "bot.md"), []byte("---\nname: bot\ndescription: Answers\n---\nAnswer.\n"), 0o600); err != nil {
		return nil, nil, err
	}
	db := filepath.Join(dir, name+".db")
	if name == "arbor-memory" {
		db = ":memory:"
	}
	many := "1000000"
	p, err := start(ctx, "0", []string{"OPENAI_BASE_URL=" + endpoint + "/v1", "OPENAI_API_KEY=none", "OPENAI_MODEL=m", "OPENAI_API=chat", "ARBOR_TOKEN=" + token, "XDG_STATE_HOME=" + dir},
		binary, "serve", agents, "--db", db, "--addr", "127.0.0.1:0", "--no-reload", "--take-over", "0",
		"--max-turns", many, "--max-user-turns", many, "--max-streams", many, "--max-user-streams", many)
	if name == "chat" {
		return p, beginChat, err
	}
	return p, beginTurn, err
}

// build builds the command of this repository in its own module.
func build(ctx context.Context, binary string) error {
	module, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/agentarbor/arbor").Output()
	if err != nil {
		return fmt.Errorf("go list finds no module of Arbor; run this in the folder benchmarks: %w", err)
	}
	said, err := exec.CommandContext(ctx, "go", "-C", strings.TrimSpace(string(module)), "build", "-o", binary, "./cmd/arbor").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, said)
	}
	return nil
}

func post(ctx context.Context, url, body string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Authorization", "Bearer "+token)
	return r, nil
}

func beginTurn(ctx context.Context, _ *http.Client, url string, n int) (*http.Request, error) {
	return post(ctx, url+"/api/v1/sessions", fmt.Sprintf(`{"id": "s%d", "content": "Hello"}`, n))
}

func beginChat(ctx context.Context, _ *http.Client, url string, n int) (*http.Request, error) {
	return post(ctx, url+"/v1/chat/completions", fmt.Sprintf(`{"model": "bot", "stream": true, "messages": [{"role": "user", "content": "Hello %d"}]}`, n))
}

// beginRun first creates the session, because ADK-Go's server requires it.
func beginRun(ctx context.Context, client *http.Client, url string, n int) (*http.Request, error) {
	r, err := post(ctx, fmt.Sprintf("%s/apps/bot/users/u/sessions/s%d", url, n), "{}")
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("no session: %s", answer.Status)
	}
	return post(ctx, url+"/run_sse", fmt.Sprintf(`{"appName": "bot", "userId": "u", "sessionId": "s%d", "streaming": true,
		"newMessage": {"role": "user", "parts": [{"text": "Hello"}]}}`, n))
}

// serveADK serves an agent of ADK-Go with its own client for Gemini, and with its sessions in memory.
func serveADK(endpoint string) error {
	model, err := gemini.NewModel(context.Background(), "m", &genai.ClientConfig{
		APIKey: "none", Backend: genai.BackendGeminiAPI, HTTPOptions: genai.HTTPOptions{BaseURL: endpoint},
	})
	if err != nil {
		return err
	}
	bot, err := llmagent.New(llmagent.Config{Name: "bot", Description: "Answers", Instruction: "Answer.", Model: model})
	if err != nil {
		return err
	}
	handler, err := adkrest.NewServer(adkrest.ServerConfig{
		SessionService: session.InMemoryService(), AgentLoader: agent.NewSingleLoader(bot), SSEWriteTimeout: time.Hour,
	})
	if err != nil {
		return err
	}
	return serve(handler)
}
