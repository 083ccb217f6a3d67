package computer

import "slices"

// Members returns the names of the toolset's members, in the order of the API's
// documentation. The slice belongs to the caller.
func Members() []string {
	return []string{
		"screenshot", "zoom",
		"left_click", "right_click", "middle_click", "double_click", "triple_click",
		"left_click_drag", "left_mouse_down", "left_mouse_up", "mouse_move", "cursor_position",
		"scroll", "type", "key", "hold_key", "wait",
	}
}

// field is an argument of a member.
type field struct {
	name     string
	required bool
}

// fieldsOf returns the arguments that a member takes; known is false for a name that is no
// member's.
func fieldsOf(member string) (fields []field, known bool) {
	switch member {
	case "screenshot", "left_mouse_down", "left_mouse_up", "cursor_position":
		return nil, true
	case "zoom":
		return []field{{"region", true}}, true
	case "left_click", "right_click", "middle_click", "double_click", "triple_click":
		return []field{{"coordinate", false}, {"text", false}}, true
	case "left_click_drag":
		return []field{{"start_coordinate", true}, {"coordinate", true}, {"text", false}}, true
	case "mouse_move":
		return []field{{"coordinate", true}}, true
	case "scroll":
		return []field{{"coordinate", false}, {"scroll_direction", true}, {"scroll_amount", true}, {"text", false}}, true
	case "type":
		return []field{{"text", true}}, true
	case "key":
		return []field{{"text", true}, {"repeat", false}}, true
	case "hold_key":
		return []field{{"text", true}, {"duration", true}}, true
	case "wait":
		return []field{{"duration", true}}, true
	}
	return nil, false
}

// ReachesKeyboard says which members put text or keys into whatever has the focus: those
// that are refused when there is nobody to ask.
func ReachesKeyboard(member string) bool {
	return slices.Contains([]string{"type", "key", "hold_key"}, member)
}

// looks says which members answer with an image.
func looks(member string) bool { return member == "screenshot" || member == "zoom" }

// clickOf is the button and the number of clicks of a click member; the number is 0 for
// any other member.
func clickOf(member string) (button Button, count int) {
	switch member {
	case "left_click":
		return LeftButton, 1
	case "right_click":
		return RightButton, 1
	case "middle_click":
		return MiddleButton, 1
	case "double_click":
		return LeftButton, 2
	case "triple_click":
		return LeftButton, 3
	}
	return 0, 0
}

// wheelOf is the button that stands for the wheel in a direction.
func wheelOf(direction string) Button {
	switch direction {
	case "up":
		return WheelUp
	case "down":
		return WheelDown
	case "left":
		return WheelLeft
	}
	return WheelRight
}
