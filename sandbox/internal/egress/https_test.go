package egress

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestHTTP2AndHTTP1ThroughCONNECT(t *testing.T) {
	for _, h2 := range []bool{true, false} {
		web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, r.Proto+" "+r.Host)
		}))
		web.EnableHTTP2 = h2
		web.StartTLS()
		defer web.Close()
		n := newInternet()
		n.put("example.com", "93.184.216.34", 443, web.Listener.Addr())
		p := start(t, n, Options{}, "example.com")
		c := p.client(trust(web))
		_, body := get(t, c, "https://example.com/")
		want := "HTTP/1.1 example.com"
		if h2 {
			want = "HTTP/2.0 example.com"
		}
		if body != want {
			t.Errorf("got %q, want %q", body, want)
		}
		c.CloseIdleConnections()
		a := p.next()
		if !a.Allowed || a.Reason != "" || a.Method != "CONNECT" || a.Host != "example.com" || a.Port != 443 ||
			a.Address.String() != "93.184.216.34:443" || a.Sent < 300 || a.Received < 500 || a.Duration <= 0 {
			t.Errorf("attempt %+v", a)
		}
	}
}

func TestPlainHTTP(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Write(w)
	}))
	defer web.Close()
	n := newInternet()
	n.put("example.com", "93.184.216.34", 80, web.Listener.Addr())
	p := start(t, n, Options{}, "example.com")
	c := p.client(nil)
	res, body := get(t, c, "http://example.com/a%2Fb?x=1;y")
	t.Log(res.Header, body)
	t.Logf("%+v", p.next())
	res, body = get(t, c, "http://other.example/")
	t.Log(res.Header, body)
	t.Logf("%+v", p.next())
}
