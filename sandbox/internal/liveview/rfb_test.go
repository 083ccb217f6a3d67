package liveview

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// messages are what noVNC 1.3 sends, as its rfb.js writes it, and the protocol's limits.
var messages = []struct{ name, hex string }{
	{"SetPixelFormat", "00000000 20180001 00ff00ff00ff 000810 000000"},
	{"SetEncodings", "02000003 00000001 ffffff21 c0a1e5ce"},
	{"SetEncodings, none", "02000000"},
	{"FramebufferUpdateRequest", "0301 0000 0000 0500 0320"},
	{"KeyEvent down", "0401 0000 0000ff0d"},
	{"KeyEvent up", "0400 0000 010020ac"},
	{"PointerEvent", "0501 0096 00a0"},
	{"ClientCutText", "06000000 00000003 616263"},
	{"ClientCutText, none", "06000000 00000000"},
	{"extended ClientCutText, notify", "06000000 fffffffc 08000001"},
	{"extended ClientCutText, capabilities", "06000000 fffffff8 1f000001 00000000"},
	{"EnableContinuousUpdates", "9601 0000 0000 0500 0320"},
	{"ClientFence", "f8000000 00000003 02 abcd"},
	{"ClientFence, empty", "f8000000 00000000 00"},
	{"xvp", "fa00 0102"},
	{"SetDesktopSize", "fb00 0400 0300 01 00 00000000 0000 0000 0400 0300 00000000"},
	{"SetDesktopSize, no screens", "fb00 0400 0300 00 00"},
	{"QEMUExtendedKeyEvent", "ff00 0001 00000061 0000001e"},
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestClientMessages(t *testing.T) {
	var all []byte
	for _, m := range messages {
		all = append(all, unhex(t, m.hex)...)
	}
	// However the stream is cut.
	for name, r := range map[string]io.Reader{"whole": bytes.NewReader(all), "by the byte": iotest.OneByteReader(bytes.NewReader(all))} {
		var buffer []byte
		for _, m := range messages {
			got, err := readClientMessage(r, &buffer)
			if err != nil || !bytes.Equal(got, unhex(t, m.hex)) {
				t.Fatalf("%s, %s: %x, %v", name, m.name, got, err)
			}
		}
		if _, err := readClientMessage(r, &buffer); !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: the end is %v", name, err)
		}
	}
	for _, m := range messages {
		whole := unhex(t, m.hex)
		for n := 1; n < len(whole); n++ {
			if _, err := readClientMessage(bytes.NewReader(whole[:n]), new([]byte)); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s cut after %d bytes: %v", m.name, n, err)
			}
		}
	}
}

func TestClientMessagesRefused(t *testing.T) {
	for name, m := range map[string]string{
		"FixColourMapEntries":            "01",
		"UltraVNC file transfer":         "07",
		"TextChat":                       "0b",
		"TightVNC file list":             "82",
		"QEMU audio":                     "ff01",
		"24 bits a pixel":                "00000000 18180001 00ff00ff00ff 000810 000000",
		"257 encodings":                  "02000101",
		"a clipboard of 1 MB and a byte": "06000000 00100001",
		"extended, 3 bytes":              "06000000 fffffffd",
		"extended, most negative":        "06000000 80000000",
		"extended, 1 MB and a byte":      "06000000 ffefffff",
		"a fence of 65 bytes":            "f8000000 00000000 41",
	} {
		_, err := readClientMessage(bytes.NewReader(unhex(t, m)), new([]byte))
		if !errors.Is(err, errProtocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzClientMessages cuts any stream into messages that add up to it, and stops at the
// first that is none.
func FuzzClientMessages(f *testing.F) {
	for _, m := range messages {
		f.Add(unhex(f, m.hex))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := bytes.NewReader(stream)
		var buffer, joined []byte
		for {
			m, err := readClientMessage(r, &buffer)
			if cap(buffer) > 2*(mostCutText+8) {
				t.Fatalf("a message takes %d bytes", cap(buffer))
			}
			if err != nil {
				if !errors.Is(err, errProtocol) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatal(err)
				}
				break
			}
			joined = append(joined, m...)
			m.key()
			if m[0] == pointerEvent {
				if again := pointerMessage(m.pointer()); !bytes.Equal(again, m) {
					t.Fatalf("%x is taken for %x", m, again)
				}
			}
			if m[0] == setEncodings {
				if all := m.onlyEncodings(func(int32) bool { return true }); !bytes.Equal(all[2:], m[2:]) {
					t.Fatalf("%x becomes %x", m, all)
				}
			}
		}
		if !bytes.HasPrefix(stream, joined) {
			t.Fatalf("%x becomes %x", stream, joined)
		}
	})
}

func TestEncodingsThatPass(t *testing.T) {
	// noVNC's, in its order; the comment says what becomes of each.
	m := clientMessage(unhex(t, "02000010"+
		"00000001 00000007 fffffefc 00000005 00000002 00000000"+ // CopyRect, Tight, TightPNG, Hextile, RRE, Raw
		"ffffffe6 ffffff02 ffffff21 ffffff20"+ // quality, compression, DesktopSize, LastRect
		"fffffefe fffffecc fffffecb"+ // QEMU keys, ExtendedDesktopSize, xvp: out
		"fffffec8 fffffec7 c0a1e5ce")) // Fence, ContinuousUpdates; the extended clipboard is out
	want := unhex(t, "0200000c"+
		"00000001 00000007 fffffefc 00000005 00000002 00000000"+
		"ffffffe6 ffffff02 ffffff21 ffffff20"+
		"fffffec8 fffffec7")
	if got := m.onlyEncodings(passEncoding); !bytes.Equal(got, want) {
		t.Errorf("%x", got)
	}
	if got := clientMessage(unhex(t, "02000001 fffffec4")).onlyEncodings(passEncoding); len(got) != 4 {
		t.Errorf("an encoding that is not known passes: %x", got)
	}
}

// TestChallenge has the answer of another implementation of DES (OpenSSL) under the key
// with its bits reversed.
func TestChallenge(t *testing.T) {
	challenge := unhex(t, "000102030405060708090a0b0c0d0e0f")
	for password, want := range map[string]string{
		"password":          "b866924125c8eebb9debc1db61c538e2",
		"k3":                "1e531f777a273272c0f6548a00caaa57",
		"longer-than-eight": "d7f5512dcd81e076eaf94d16cb29ec75",
		"":                  "491e890de9ace932838a49792f2213f3",
	} {
		if got := answerChallenge(password, challenge); !bytes.Equal(got, unhex(t, want)) {
			t.Errorf("%q: %x", password, got)
		}
	}
}

func TestPortableKeysyms(t *testing.T) {
	for symbol, want := range map[uint32]uint32{
		'A': 'A', 'a': 'a', 0xff0d: 0xff0d, 0xffe1: 0xffe1, 0xfe03: 0xfe03, 0: 0,
		0xe4: 0xe4, 0xc4: 0x010000c4, 0xdf: 0xdf, 0xd7: 0xd7, // ä, Ä, ß, ×
		0x6d0: 0x6d0, 0x6f0: 0x0100041f, 0x6b3: 0x01000401, // п, П, Ё
		0x1a3: 0x01000141, 0x1b3: 0x1b3, // Ł, ł
		0x7c1: 0x01000391, 0x7e1: 0x7e1, // Α, α
		0x13be: 0x01000178, 0x20ac: 0x20ac, 0x010000c4: 0x010000c4, // Ÿ, €
	} {
		if got := portableKeysym(symbol); got != want {
			t.Errorf("%#x becomes %#x, not %#x", symbol, got, want)
		}
	}
}

func TestHandshakeErrors(t *testing.T) {
	for name, c := range map[string]struct{ server, want string }{
		"nothing":       {"", "version"},
		"another":       {hex.EncodeToString([]byte("RFB 003.003\n")), "not RFB 3.8"},
		"HTTP":          {hex.EncodeToString([]byte("HTTP/1.1 400 Bad")), "not RFB 3.8"},
		"refused":       {hex.EncodeToString([]byte(protocolVersion)) + "00 00000004 66756c6c", `refuses the connection: "full"`},
		"no reason":     {hex.EncodeToString([]byte(protocolVersion)) + "00", "no reason"},
		"no password":   {hex.EncodeToString([]byte(protocolVersion)) + "01 01", "2 is wanted"},
		"no challenge":  {hex.EncodeToString([]byte(protocolVersion)) + "02 0102 0000", "challenge"},
		"wrong":         {hex.EncodeToString([]byte(protocolVersion)) + "01 02" + strings.Repeat("00", 16) + "00000001 00000003 626164", `refuses the password: "bad"`},
		"endless cause": {hex.EncodeToString([]byte(protocolVersion)) + "01 02" + strings.Repeat("00", 16) + "00000001 ffffffff 626164", `"bad`},
	} {
		rw := struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(unhex(t, c.server)), io.Discard}
		if err := connectServer(rw, "password"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	rw := struct {
		io.Reader
		io.Writer
	}{bytes.NewReader(slices.Concat(make([]byte, 20), unhex(t, "ffffffff"))), io.Discard}
	if _, err := start(rw, "x"); err == nil || !strings.Contains(err.Error(), "a name of 4294967295 bytes") {
		t.Errorf("an endless name: %v", err)
	}
}
