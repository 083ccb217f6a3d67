// Package liveview shows a desktop in a browser and lets a person take its mouse and
// keyboard: a page, noVNC's files, and a websocket that is bridged to a VNC server
// (x11vnc).
//
// The browser talks RFB 3.8 to the [View] and never learns the VNC server's password: the
// View does both handshakes, then passes the server's stream on as it is and takes the
// viewer's apart message by message. So it knows when a person acts, drops input where only
// watching is allowed, lets through nothing that it does not know, and releases what a
// viewer holds when it goes.
//
// A [Gate] stands before everything. [Serve] puts the parts together.
package liveview
