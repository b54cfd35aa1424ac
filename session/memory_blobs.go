package session

import (
	"bytes"
	"context"
	"math"
)

// memoryBlob is a file's bytes, and the length of the log when they were stored.
type memoryBlob struct {
	seq  int64
	data []byte
}

// PutBlob implements [Blobs].
func (m *Memory) PutBlob(ctx context.Context, key Key, lease Lease, data []byte) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	digest, copied := Digest(data), bytes.Clone(data)
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sessions[key]
	if s == nil || !s.row.holds(&lease) {
		return "", LeaseLost(key)
	}
	if s.blobs == nil {
		s.blobs = make(map[string]memoryBlob)
	}
	if _, ok := s.blobs[digest]; !ok {
		s.blobs[digest] = memoryBlob{s.row.Head.Seq, copied}
	}
	return digest, nil
}

// Blob implements [Blobs].
func (m *Memory) Blob(ctx context.Context, key Key, digest string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	before := int64(math.MaxInt64)
	for s := m.sessions[key]; s != nil; s = s.parent {
		if b, ok := s.blobs[digest]; ok && b.seq < before {
			return WholeBlob(key, digest, b.data)
		}
		before = min(before, s.row.Shared)
	}
	return nil, NoBlob(key, digest)
}
