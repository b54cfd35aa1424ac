package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
)

// measure starts a server, opens n streams and measures the tokens of a window in which all are open.
func measure(ctx context.Context, name, binary string, streams int, window time.Duration) (*measured, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "streams-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	opening := time.Second + time.Duration(streams)*4*time.Millisecond
	tokens := int((opening + window + 3*time.Second) / pace)
	endpoint, err := start(ctx, "1", nil, self, "endpoint", strconv.Itoa(tokens))
	if err != nil {
		return nil, err
	}
	defer endpoint.stop()
	server, begin, err := server(ctx, name, binary, dir, endpoint.url)
	if err != nil {
		return nil, err
	}
	defer server.stop()

	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: streams, DisableCompression: true}}
	_, without, err := server.usage()
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	from := begun.Add(opening + time.Second)
	delays := make([][]time.Duration, streams)
	var all errgroup.Group
	for n := range streams {
		time.Sleep(time.Until(begun.Add(time.Duration(n) * (opening - time.Second) / time.Duration(streams))))
		all.Go(func() (err error) {
			r, err := begin(ctx, client, server.url, n)
			if err != nil {
				return err
			}
			delays[n], err = follow(client, r, tokens, from, from.Add(window))
			return err
		})
	}
	time.Sleep(time.Until(from))
	before, _, err := server.usage()
	if err != nil {
		return nil, err
	}
	time.Sleep(window)
	after, with, err := server.usage()
	if err != nil {
		return nil, err
	}
	if err := all.Wait(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, tail(server.said.String()))
	}
	sorted := slices.Concat(delays...)
	slices.Sort(sorted)
	if want := streams * int(window/pace); len(sorted) < want*9/10 {
		return nil, fmt.Errorf("%d tokens came in %v, where about %d were to come", len(sorted), window, want)
	}
	return &measured{
		server: name, streams: streams, tokens: len(sorted),
		p50: sorted[len(sorted)/2], p99: sorted[len(sorted)*99/100], max: sorted[len(sorted)-1],
		cpu: (after - before) / time.Duration(len(sorted)), memory: (with - without) / int64(streams),
	}, nil
}

func tail(s string) string { return s[max(0, len(s)-1000):] }

// follow reads a stream to its end and returns the delays of its tokens between two times. It returns an error unless all
// tokens came, one by one.
func follow(client *http.Client, r *http.Request, tokens int, from, to time.Time) (delays []time.Duration, err error) {
	answer, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		said, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
		return nil, fmt.Errorf("%s: %s", answer.Status, said)
	}
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	came := 0
	for lines.Scan() {
		_, rest, found := bytes.Cut(lines.Bytes(), []byte(mark))
		stamp, rest, whole := bytes.Cut(rest, []byte(mark))
		if !found || !whole || bytes.Contains(rest, []byte(mark)) {
			continue // the complete answer has all tokens
		}
		written, err := strconv.ParseInt(string(stamp), 10, 64)
		if err != nil {
			return nil, err
		}
		came++
		if at := time.Unix(0, written); at.After(from) && at.Before(to) {
			delays = append(delays, time.Since(at))
		}
	}
	if came != tokens {
		return nil, errors.Join(fmt.Errorf("%d of %d tokens arrived separately", came, tokens), lines.Err())
	}
	return delays, nil
}
