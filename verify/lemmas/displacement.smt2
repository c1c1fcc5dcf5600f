; Blocks of b(c + 1) - b(c) elements laid one after the other: block c begins at b(c), so element i of the whole is element i - b(c) of its
; owner's block. By induction on c, `at` being the sum of the sizes before.
;; step base
(declare-fun at (Int) Int)
(declare-fun b (Int) Int)
(assert (= (at 0) 0))
(assert (= (b 0) 0))
;; goal
(assert (not (= (at 0) (b 0))))
;; step induction
(declare-fun at (Int) Int)
(declare-fun b (Int) Int)
(declare-const c Int)
(assert (<= 0 c))
(assert (= (at (+ c 1)) (+ (at c) (- (b (+ c 1)) (b c)))))
(assert (= (at c) (b c)))
;; goal
(assert (not (= (at (+ c 1)) (b (+ c 1)))))
;; step position
(declare-fun at (Int) Int)
(declare-fun b (Int) Int)
(declare-const c Int)
(declare-const i Int)
(declare-const j Int)
(assert (= (at c) (b c)))
(assert (= i (+ (at c) j)))
(assert (and (<= (b c) i) (< i (b (+ c 1)))))
;; goal
(assert (not (and (= j (- i (b c))) (<= 0 j) (< j (- (b (+ c 1)) (b c))))))
