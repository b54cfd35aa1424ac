// Command streams measures how long the tokens of a model wait in a server while many answers stream at the same time,
// and compares Arbor with ADK-Go's server:
//
//	go -C benchmarks run ./streams -streams 500,1000,2000
//
// Each server is a separate process on the first processor. The clients and a scripted endpoint run on the second one.
// The endpoint sends both servers the same ten words per second and stream. Each word contains the time at which the
// endpoint wrote it. So the delay of a word is the time through the server, plus the time of the endpoint and the
// clients, which is the same for both servers.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// measured is the result of one server with a number of streams.
type measured struct {
	server        string
	streams       int
	tokens        int           // tokens that arrived in the window
	p50, p99, max time.Duration // the delay of a token
	cpu           time.Duration // of the server, per token
	memory        int64         // resident bytes of the server per stream, without those at the start
}

func main() {
	// The two roles in which the command starts itself.
	if len(os.Args) == 3 && os.Args[1] == "endpoint" {
		exit(serveEndpoint(os.Args[2]))
	}
	if len(os.Args) == 3 && os.Args[1] == "adk" {
		exit(serveADK(os.Args[2]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	exit(run(ctx, os.Args[1:], os.Stdout))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "streams:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("streams", flag.ContinueOnError)
	counts := flags.String("streams", "1000", "`NUMBERS` of streams, with commas between them")
	names := flags.String("servers", "arbor,chat,adk", "`SERVERS` to measure: arbor and chat, its API for OpenAI's clients, with sessions in a SQLite file, "+
		"arbor-memory, and adk, which keeps them in memory")
	window := flags.Duration("window", 10*time.Second, "`TIME` to measure, once all streams are open")
	rounds := flags.Int("rounds", 1, "`NUMBER` of rounds; the servers take turns")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var numbers []int
	for count := range strings.SplitSeq(*counts, ",") {
		n, err := strconv.Atoi(count)
		if err != nil || n < 1 {
			return fmt.Errorf("-streams %s: %q is not a number of streams", *counts, count)
		}
		numbers = append(numbers, n)
	}
	servers := strings.Split(*names, ",")
	for _, name := range servers {
		if !slices.Contains([]string{"arbor", "arbor-memory", "chat", "adk"}, name) {
			return fmt.Errorf("-servers %s: there is no server %q", *names, name)
		}
	}
	dir, err := os.MkdirTemp("", "streams-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "arbor")
	if err := build(ctx, binary); err != nil {
		return err
	}
	const row = "%-12s %7v %7v %10v %10v %10v %17v %15v\n"
	fmt.Fprintf(out, row, "server", "streams", "tokens", "p50", "p99", "max", "processor a token", "memory a stream")
	for range *rounds {
		for _, n := range numbers {
			for _, name := range servers {
				m, err := measure(ctx, name, binary, n, *window)
				if err != nil {
					return fmt.Errorf("%s with %d streams: %w", name, n, err)
				}
				fmt.Fprintf(out, row, m.server, m.streams, m.tokens, m.p50.Round(10*time.Microsecond), m.p99.Round(10*time.Microsecond),
					m.max.Round(10*time.Microsecond), m.cpu.Round(100*time.Nanosecond), fmt.Sprintf("%d kB", m.memory/1000))
			}
		}
	}
	return nil
}
