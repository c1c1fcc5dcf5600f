; A table that divides one part [lo, hi) of another table: b(0) = lo, b(n) = hi. Every part [b(c), b(c + 1)) lies in [lo, hi), by induction
; over devices from either end. Seen from lo, s(c) = b(c) - lo is a table that covers hi - lo units: what the other lemmas say of tables holds
; of it.
;; step lower base
(declare-fun b (Int) Int)
(declare-const lo Int)
(assert (= (b 0) lo))
;; goal
(assert (not (<= lo (b 0))))
;; step lower induction
(declare-fun b (Int) Int)
(declare-const lo Int)
(declare-const c Int)
(assert (<= (b c) (b (+ c 1))))
(assert (<= lo (b c)))
;; goal
(assert (not (<= lo (b (+ c 1)))))
;; step upper base
(declare-fun b (Int) Int)
(declare-const hi Int)
(declare-const n Int)
(assert (= (b n) hi))
;; goal
(assert (not (<= (b n) hi)))
;; step upper induction
(declare-fun b (Int) Int)
(declare-const hi Int)
(declare-const c Int)
(assert (<= (b c) (b (+ c 1))))
(assert (<= (b (+ c 1)) hi))
;; goal
(assert (not (<= (b c) hi)))
;; step shifted
(declare-fun b (Int) Int)
(declare-fun s (Int) Int)
(declare-const lo Int)
(declare-const hi Int)
(declare-const n Int)
(declare-const c Int)
(assert (= (b 0) lo))
(assert (= (b n) hi))
(assert (<= (b c) (b (+ c 1))))
(assert (= (s 0) (- (b 0) lo)))
(assert (= (s n) (- (b n) lo)))
(assert (= (s c) (- (b c) lo)))
(assert (= (s (+ c 1)) (- (b (+ c 1)) lo)))
;; goal
(assert (not (and (= (s 0) 0) (= (s n) (- hi lo)) (<= (s c) (s (+ c 1))))))
