package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/agentarbor/arbor/agent"
)

// Blobs stores the bytes of files. The log contains only their [Digest], and each session has its own files.
type Blobs interface {
	// PutBlob stores data for the session and returns its digest. Storing the same bytes again changes nothing. The
	// bytes are durable when PutBlob returns, so an event that is appended afterwards never names missing bytes. If
	// the lease is no longer the current one, the error is [agent.ErrConflict]. The store does not keep the slice.
	PutBlob(ctx context.Context, key Key, lease Lease, data []byte) (digest string, err error)
	// Blob returns the bytes with a digest that were stored for the session, or for a session that it was forked
	// from, before the last event that they share. If the store has no such bytes, the error is [agent.ErrNoFile].
	// The slice is shared: callers must not change it.
	Blob(ctx context.Context, key Key, digest string) ([]byte, error)
}

const digestPrefix = "sha256:"

// Digest returns the name of the bytes: "sha256:" followed by 64 lower-case hexadecimal digits.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return digestPrefix + hex.EncodeToString(sum[:])
}

// IsDigest reports whether s has the form of a [Digest].
func IsDigest(s string) bool {
	sum, ok := strings.CutPrefix(s, digestPrefix)
	return ok && len(sum) == 2*sha256.Size && strings.Trim(sum, "0123456789abcdef") == ""
}

// NoBlob returns the error for a digest that the store has no bytes for in the session. The error is
// [agent.ErrNoFile].
func NoBlob(key Key, digest string) error {
	return fmt.Errorf("session %s has no bytes %.80q: %w", key, digest, agent.ErrNoFile)
}

// WholeBlob returns data if it matches the digest, and otherwise an error. Stores call it with the bytes that they
// have read.
func WholeBlob(key Key, digest string, data []byte) ([]byte, error) {
	if Digest(data) != digest {
		return nil, fmt.Errorf("session %s: the stored bytes of the file %.80q are damaged: restore them from a backup", key, digest)
	}
	return data, nil
}
